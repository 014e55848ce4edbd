# Replies in which every field has the wrong type.
for number in range(100):
    say(b'{"jsonrpc":"2.0","id":%d,"result":{"outcome":[],"value":{},"exception":7,"interrupts":"x"}}\n' % number)
    say(b'{"jsonrpc":"2.0","id":%d,"error":"none"}\n' % number)
    say(b'{"jsonrpc":"2.0","id":%d,"result":[]}\n' % number)

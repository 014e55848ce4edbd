# Announces a gigabyte and sends nothing of it.
for number in range(10):
    say(b'{"jsonrpc":"2.0","method":"display","attachment":1000000000,"id":%d,"params":{}}\n' % number)

# Calls to the host that are malformed in every way.
for params in (b"null", b"[]", b'{"name":5}', b'{"name":"llm_query","args":{}}', b'{"name":"__import__","args":["os"]}'):
    for number in (b"1", b"null", b'"a"', b"[]", b"-1", b"1.5"):
        say(b'{"jsonrpc":"2.0","id":%s,"method":"bridge","params":%s}\n' % (number, params))

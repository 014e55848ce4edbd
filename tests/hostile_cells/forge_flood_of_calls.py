# Calls to the host without end, whose answers nobody reads.
while True:
    say(b'{"jsonrpc":"2.0","id":1,"method":"bridge","params":{"name":"llm_query","args":["x"]}}\n' * 1000)

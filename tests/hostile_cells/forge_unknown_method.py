# Calls a method of the host that does not exist.
say(b'{"jsonrpc":"2.0","id":1,"method":"eval","params":{"code":"1"}}\n')

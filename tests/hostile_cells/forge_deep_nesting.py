# JSON nested a hundred thousand levels deep.
say(b'{"jsonrpc":"2.0","id":2,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n")

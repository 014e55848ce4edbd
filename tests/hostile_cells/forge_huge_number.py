# A number of a million digits.
say(b'{"jsonrpc":"2.0","id":' + b"9" * 1_000_000 + b"}\n")

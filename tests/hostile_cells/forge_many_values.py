# Nine megabytes of nothing but brackets: cheap to send, dear to take apart.
say(b'{"jsonrpc":"2.0","method":"output","params":{"text":[' + b"[]," * 3_000_000 + b"[]]}}\n")

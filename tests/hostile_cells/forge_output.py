# Output that was never printed, in a stream that does not exist.
for stream in (b'"stdout"', b'"nowhere"', b"5", b"null"):
    say(b'{"jsonrpc":"2.0","method":"output","params":{"stream":%s,"text":"\\ud800 forged"}}\n' % stream)

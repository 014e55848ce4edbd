# Announces sizes that are none.
for size in (b"-1", b"1e9", b'"5"', b"true", b"99999999999999999999", b"null"):
    say(b'{"jsonrpc":"2.0","method":"display","attachment":%s}\n' % size)

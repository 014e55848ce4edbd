# Names with line ends, with bytes that are no text, and as long as they may be.
for name in (b"a\nb", b"\xff\xfe", b"\x1b[31m", b"-rf", b"'\"`$(x)", b"x" * 255, b" ", b"...", b"\xe2\x80\xae"):
    open(name, "w").close()

# The beginning of a frame, and nothing more.
import time

say(b'{"jsonrpc":"2.0","id":')
time.sleep(1000)

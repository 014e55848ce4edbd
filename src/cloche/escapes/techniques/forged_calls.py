# T63: Calls of a host function that was never offered, written to every line that was left open.
# aim: secret
# sealed: host
# confined: host
# process: host
import json
import os
import stat

frames = b""
for method in ("bridge", "call", "tool", "call_tool", "reveal"):
    frame = {"jsonrpc": "2.0", "id": "forged", "method": method, "params": {"name": "reveal", "args": []}}
    frames += json.dumps(frame).encode() + b"\n"
for number in range(3, 1024):
    try:
        if stat.S_ISSOCK(os.fstat(number).st_mode):
            os.write(number, frames)
    except OSError:
        pass

# T46: asyncio and others carry subprocess along.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import asyncio

asyncio.base_events.subprocess.run(["sh", "-c", "echo out > " + canary["folder"] + "/escaped"])

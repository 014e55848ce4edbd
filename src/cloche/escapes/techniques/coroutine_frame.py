# T16: A running coroutine's frame leads back to its callers.
# aim: secret
# sealed: process
# confined: process
# process: process
async def walk():
    frame = running.cr_frame
    while frame is not None:
        print(str(frame.f_locals.get("memory")))
        frame = frame.f_back
running = walk()
try:
    running.send(None)
except StopIteration:
    pass

# T17: A running asynchronous generator's frame leads back to its callers.
# aim: secret
# sealed: process
# confined: process
# process: process
async def walk():
    frame = running.ag_frame
    while frame is not None:
        print(str(frame.f_locals.get("memory")))
        frame = frame.f_back
    yield 1
running = walk()
try:
    running.asend(None).send(None)
except StopIteration:
    pass

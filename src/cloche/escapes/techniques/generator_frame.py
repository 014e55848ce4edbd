# T15: A running generator's frame leads back to its callers.
# aim: secret
# sealed: process
# confined: process
# process: process
def walk():
    frame = running.gi_frame
    while frame is not None:
        print(str(frame.f_locals.get("memory")), str(frame.f_globals.get("given"))[-4000:])
        frame = frame.f_back
    yield
running = walk()
list(running)

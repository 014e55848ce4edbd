# T18: The traceback of an exception leads to the frames that were active.
# aim: secret
# sealed: process
# confined: process
# process: process
class Manager:
    def __enter__(self):
        return self
    def __exit__(self, kind, value, trace):
        frame = trace.tb_frame
        while frame is not None:
            print(str(frame.f_locals.get("memory")))
            frame = frame.f_back
        return True
with Manager():
    1 / 0

# A generator that refuses to be closed.
def endless():
    while True:
        try:
            while True:
                yield
        except BaseException:
            pass


x = endless()
for _ in x:
    pass

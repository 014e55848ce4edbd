# A context manager that swallows whatever leaves its block.
class Swallow:
    def __enter__(self):
        return self

    def __exit__(self, *trouble):
        return True


while True:
    with Swallow():
        while True:
            pass

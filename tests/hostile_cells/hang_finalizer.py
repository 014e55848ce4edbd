# An object that does not want to go.
class Stay:
    def __del__(self):
        while True:
            try:
                while True:
                    pass
            except BaseException:
                pass


x = Stay()
del x

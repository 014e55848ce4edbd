# Texts of objects that raise, lie about their length, or are no texts.
class Text(str):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        raise SystemExit("sliced")

    def __format__(self, spec):
        raise SystemExit("formatted")

    encode = __str__ = __getitem__


class Evil:
    def __repr__(self):
        return Text("x" * 3_000_000)


x = Evil()
x

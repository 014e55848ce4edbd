# Displays without end.
class Big:
    def _repr_html_(self):
        return "x" * 1_000_000


while True:
    display(Big(), Big())

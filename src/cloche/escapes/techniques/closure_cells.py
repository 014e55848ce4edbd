# T11: The cells of a tool's closure hold the host's objects.
# aim: secret
# sealed: process
# confined: process
# process: process
def walk(value, depth=0):
    if depth < 4:
        print(str(getattr(value, "memory", "")))
        for cell in getattr(value, "__closure__", None) or ():
            walk(cell.cell_contents, depth + 1)
        if hasattr(value, "__func__"):
            walk(value.__self__, depth + 1)
walk(lookup)

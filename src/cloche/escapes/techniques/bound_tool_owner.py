# T12: A bound tool leads to its owner, whose memory and lists of what is allowed can be rewritten.
# aim: secret
# sealed: process
# confined: process
# process: process
cells = getattr(lookup, "__closure__", None) or ()
owners = [getattr(lookup, "__self__", None)] + [cell.cell_contents for cell in cells]
for owner in owners:
    if hasattr(owner, "memory"):
        owner.allowed = ("everything",)
        print(owner.memory.decode())

# T53: A function with a code object of one's own making.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
def innocent():
    return 1
innocent.__code__ = compile("import os; os.mkdir(%r)" % (canary["folder"] + "/escaped"), "x", "exec").replace(co_name="innocent")
innocent()

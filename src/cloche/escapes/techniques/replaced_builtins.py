# T42: Builtins and hooks of the session, replaced for whoever uses them next.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import builtins
import sys

kept = builtins.print
def patched(*args, **options):
    try:
        open(canary["folder"] + "/escaped", "w").close()
    except OSError:
        pass
    return kept(*args, **options)
builtins.print = patched
sys.displayhook = patched
print("as ever")

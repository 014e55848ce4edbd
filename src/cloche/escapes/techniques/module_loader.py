# T06: The loader of any module loads another one without an import.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import sys
posix = sys.__spec__.loader.load_module("posix")
posix.close(posix.open(canary["folder"] + "/escaped", 0o101, 0o600))

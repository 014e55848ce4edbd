# T06: The loader of any module loads another one without an import.
# aim: written
# stopped by: view
import sys
posix = sys.__spec__.loader.load_module("posix")
posix.close(posix.open(canary["folder"] + "/escaped", 0o101, 0o600))

# poisons the session
# Importing anything fails, or exits.
import sys


class Trap:
    def find_spec(self, *args):
        raise SystemExit("no imports")


sys.meta_path[:] = [Trap()]
sys.path[:] = [object()]
sys.path_hooks[:] = [lambda path: 1 / 0]

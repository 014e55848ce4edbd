# poisons the session
# All modules are gone.
import sys

sys.modules.clear()

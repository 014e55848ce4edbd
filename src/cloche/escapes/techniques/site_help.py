# T05: The callables that site adds lead to sys.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import _sitebuiltins, os
sys = _sitebuiltins.Quitter.__call__.__globals__["sys"]
sys.modules["posix"].mkdir(canary["folder"] + "/escaped")

# T05: The callables that site adds lead to sys.
# aim: written
# stopped by: view
import _sitebuiltins, os
sys = _sitebuiltins.Quitter.__call__.__globals__["sys"]
sys.modules["posix"].mkdir(canary["folder"] + "/escaped")

# T14: Modules hide in warnings, linecache and the table of modules.
# aim: secret
# sealed: view, environment
# confined: landlock, environment
# process: nothing
import traceback
import warnings

print("".join(traceback.linecache.getlines(canary["secret"])))
print(warnings.catch_warnings()._module.sys.modules["os"].environ.get(canary["variable"]))

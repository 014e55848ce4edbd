# T28: getattr in partial, map and reduce.
# aim: secret
# stopped by: view, environment
import functools

opener = functools.reduce(getattr, ["__self__", "open"], len)
print(list(map(functools.partial(getattr, opener(canary["secret"])), ["read"]))[0]())

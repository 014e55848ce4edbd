# T28: getattr in partial, map and reduce.
# aim: secret
# sealed: view, environment
# confined: landlock, environment
# process: nothing
import functools

opener = functools.reduce(getattr, ["__self__", "open"], len)
print(list(map(functools.partial(getattr, opener(canary["secret"])), ["read"]))[0]())

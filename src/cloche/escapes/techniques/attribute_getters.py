# T27: operator reads attributes by name.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
import operator

opener = operator.attrgetter("__self__.open")(len)
print(operator.methodcaller("read")(opener(canary["secret"])))

# T47: Library calls that evaluate code.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import pkgutil
import timeit

where = canary["folder"]
timeit.timeit("open(%r, 'w').close()" % (where + "/by-timeit"), number=1)
pkgutil.resolve_name("os:mkdir")(where + "/by-name")

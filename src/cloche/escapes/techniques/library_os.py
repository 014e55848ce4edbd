# T48: Allowed libraries that carry os along.
# aim: secret
# sealed: environment
# confined: environment
# process: environment
for path in ("numpy.f2py", "pandas.io.common", "numpy.testing._private.utils"):
    try:
        print(__import__(path, fromlist=["os"]).os.environ.get(canary["variable"]))
    except (ImportError, AttributeError) as exc:
        print(path, exc)

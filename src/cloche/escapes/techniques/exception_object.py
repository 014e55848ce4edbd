# T24: An AttributeError carries the object it was about.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
try:
    f"{len.nothing}"
except AttributeError as exc:
    owner = getattr(exc, "obj", len)
    print(owner.__self__.open(canary["secret"]).read())

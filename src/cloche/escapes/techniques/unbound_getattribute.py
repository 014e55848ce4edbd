# T08: The unbound attribute reader passes by every check of attributes.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
read = object.__getattribute__
cls = read(read(read((), "__class__"), "__base__"), "__class__")
module = read(print, "__self__")
print(type(module).__getattribute__(module, "open")(canary["secret"]).read())

# T04: A function that was handed in as a tool exposes the globals of its module.
# aim: secret
# sealed: process
# confined: process
# process: process
walk = lookup.__globals__
for name, value in list(walk.items()):
    print(name, str(value)[:2000])

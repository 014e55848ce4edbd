# T21: A format string reads attributes.
# aim: secret
# sealed: process
# confined: process
# process: process
print(f"{lookup.__globals__['given']}")

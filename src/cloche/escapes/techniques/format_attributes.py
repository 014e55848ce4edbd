# T21: A format string reads attributes.
# aim: secret
# stopped by: process
print(f"{lookup.__globals__['given']}")

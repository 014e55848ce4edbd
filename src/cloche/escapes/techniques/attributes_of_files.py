# T70: What is kept beside a file and not in it.
# aim: secret
# sealed: view
# confined: seccomp
# process: nothing
import os

print(os.getxattr(canary["secret"], "user.secret").decode())

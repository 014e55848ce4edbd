# T70: Climb out of the workspace by path.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
for depth in range(1, 12):
    try:
        print(open("../" * depth + canary["secret"].lstrip("/")).read())
    except OSError:
        pass

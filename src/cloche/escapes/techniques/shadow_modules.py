# T62: A module beside the host's own, which the host imports later.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
for name in ("json.py", "sitecustomize.py", "conftest.py"):
    open(canary["folder"] + "/" + name, "w").write("raise SystemExit")

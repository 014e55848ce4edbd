# T62: A module beside the host's own, which the host imports later.
# aim: written
# stopped by: view
for name in ("json.py", "sitecustomize.py", "conftest.py"):
    open(canary["folder"] + "/" + name, "w").write("raise SystemExit")

# T71: Change the files of a session beside, through what the kernel shows of its process.
# aim: neighbour
# sealed: namespaces, landlock
# confined: landlock
# process: nothing
for way in ("cwd", "root/app"):
    try:
        with open("/proc/%s/%s/ledger.txt" % (canary["neighbour"], way), "w") as handle:
            handle.write("every plant has the same bell")
    except OSError as exc:
        print(exc)

# T71: Change the variables of a session beside, in the memory of its process.
# aim: neighbour
# sealed: namespaces, landlock
# confined: landlock
# process: nothing
wanted, instead = b"every plant has its own bell", b"every plant has the same one"
try:
    with open("/proc/%s/maps" % canary["neighbour"]) as maps, open("/proc/%s/mem" % canary["neighbour"], "r+b", 0) as memory:
        for line in maps:
            place, rights = line.split()[:2]
            start, end = (int(word, 16) for word in place.split("-"))
            if not rights.startswith("rw") or end - start > 64 << 20:
                continue
            try:
                memory.seek(start)
                found = memory.read(end - start)
            except OSError:
                continue
            at = found.find(wanted)
            while at >= 0:
                memory.seek(start + at)
                memory.write(instead)
                at = found.find(wanted, at + 1)
except OSError as exc:
    print(exc)

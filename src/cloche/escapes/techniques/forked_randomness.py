# T69: Secrets that a session shares with the process it was copied from.
# aim: secret
# sealed: process
# confined: process
# process: process
import ctypes
import re

with open("/proc/self/maps") as maps:
    areas = [line.split() for line in maps]
for area in areas:
    if "r" in area[1] and "w" in area[1] and not area[-1].startswith("[v"):
        low, high = (int(part, 16) for part in area[0].split("-"))
        if high - low > 64 << 20:
            continue
        data = ctypes.string_at(low, high - low)
        for found in set(re.findall(rb"(?:memory|environment)-[0-9a-f]{24}", data)):
            print(found.decode())

# T62: Flags, attributes, version and write hint of a file in the interpreter's folder, by a descriptor to read it.
# aim: written
# sealed: view, seccomp
# confined: seccomp
# process: nothing
import fcntl
import struct

GET_FLAGS, SET_FLAGS, NO_DUMP = 0x80086601, 0x40086602, 0x40
GET_ATTRIBUTES, SET_ATTRIBUTES, NO_ATIME = 0x801C581F, 0x401C5820, 0x40
SET_VERSION, SET_HINT, EXTREME = 0x40087602, 1036, 5

if canary["shared"]:
    handle = open(canary["shared"])

    def set_flags():
        flags = struct.unpack("l", fcntl.ioctl(handle, GET_FLAGS, bytes(8)))[0]
        fcntl.ioctl(handle, SET_FLAGS, struct.pack("l", flags | NO_DUMP))

    def set_attributes():
        held = bytearray(fcntl.ioctl(handle, GET_ATTRIBUTES, bytes(28)))
        held[:4] = struct.pack("I", struct.unpack_from("I", held)[0] | NO_ATIME)
        fcntl.ioctl(handle, SET_ATTRIBUTES, bytes(held))

    for attempt in (
        set_flags,
        set_attributes,
        lambda: fcntl.ioctl(handle, SET_VERSION, struct.pack("l", 12345)),
        lambda: fcntl.fcntl(handle, SET_HINT, struct.pack("Q", EXTREME)),
    ):
        try:
            attempt()
        except OSError as exc:
            print(exc)

# An outcome that does not exist, with the cell still running.
import gc

for thing in gc.get_objects():
    if type(thing) is dict and thing.get("method") == "execute" and "id" in thing:
        say(b'{"jsonrpc":"2.0","id":%d,"result":{"outcome":"superb","code":-1}}\n' % thing["id"])
while True:
    pass

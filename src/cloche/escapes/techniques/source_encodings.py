# T41: Source in an encoding that hides what it says.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
call = "__import__('os').mkdir(%r)" % (canary["folder"] + "/escaped")
exec(b"# coding: utf_7\n" + call.encode("utf_7"))

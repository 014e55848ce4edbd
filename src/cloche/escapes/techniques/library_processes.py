# T51: Libraries that start other programs.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import os
import webbrowser

os.environ["BROWSER"] = "/bin/sh -c 'echo out > %s/escaped' %%s" % canary["folder"]
webbrowser.register("own", None, webbrowser.GenericBrowser(["/bin/sh", "-c", "echo out > %s/escaped" % canary["folder"]]))
webbrowser.get("own").open("about:blank")

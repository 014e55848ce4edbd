# T23: The formatter returns the object itself, not its text.
# aim: secret
# sealed: process, view
# confined: process, landlock
# process: process
import string

found, _ = string.Formatter().get_field("0.__globals__", (lookup,), {})
print(str(found.get("given")))

# T45: codecs and json open files.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
import codecs
import json

print(codecs.open(canary["secret"]).read(), json.codecs.builtins.open(canary["secret"]).read())

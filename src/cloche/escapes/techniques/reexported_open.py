# T45: codecs and json open files.
# aim: secret
# stopped by: view
import codecs
import json

print(codecs.open(canary["secret"]).read(), json.codecs.builtins.open(canary["secret"]).read())

# T68: The bridge of a browser's interpreter to its host.
# aim: secret
# stopped by: environment
try:
    import js
    print(js.process.env.to_py())
except ImportError:
    pass
import os

print(dict(os.environ))

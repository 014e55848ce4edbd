# Aborts, with a handler for it.
import faulthandler
import os

faulthandler.enable()
os.abort()

# Becomes another program that says what a guest would say.
import os

line = '{"jsonrpc":"2.0","id":2,"result":{"outcome":"ok","value":"forged"}}'
os.execv("/bin/sh", ["sh", "-c", "while :; do echo '%s'; done" % line])

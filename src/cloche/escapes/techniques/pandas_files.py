# T50: pandas reads files by address and evaluates text.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
import pandas

print(pandas.read_csv("file://" + canary["secret"], header=None).to_string())

# T56: The compiler, the tokenizer and fileinput read files.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
import fileinput
import linecache
import tokenize

print("".join(fileinput.input([canary["secret"]])))
print(tokenize.open(canary["secret"]).read(), linecache.getline(canary["secret"], 1))

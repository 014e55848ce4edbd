# T39: Identifiers in other scripts that the parser makes plain.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
print(ｏｐｅｎ(canary["secret"]).𝓇𝑒𝒶𝒹())

# T39: Identifiers in other scripts that the parser makes plain.
# aim: secret
# stopped by: view
print(ｏｐｅｎ(canary["secret"]).𝓇𝑒𝒶𝒹())

# T03: Every builtin function knows the builtins module.
# aim: secret
# sealed: environment
# confined: environment
# process: environment
print(len.__self__.__import__("os").environ[canary["variable"]])

# T03: Every builtin function knows the builtins module.
# aim: secret
# stopped by: environment
print(len.__self__.__import__("os").environ[canary["variable"]])

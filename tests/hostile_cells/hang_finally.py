# The clean-up does not end either.
try:
    while True:
        pass
finally:
    try:
        while True:
            pass
    finally:
        while True:
            pass

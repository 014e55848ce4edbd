# Loops inside handlers inside loops: every interrupt is caught somewhere.
while True:
    try:
        while True:
            try:
                while True:
                    pass
            except KeyboardInterrupt:
                continue
    except BaseException:
        continue

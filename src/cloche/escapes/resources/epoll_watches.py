# R07: Watches of epoll: one file under many numbers, in many sets.
# aim: exhausted
# sealed: namespaces
# confined: seccomp
# process: nothing
import os
import select

took, held = 0, []
pipes = [os.pipe() for _ in range(20)]
numbers = [os.dup(pipes[0][0]) for _ in range(100)]
for number in numbers:
    os.close(number)
try:
    for _ in range(40):
        watch = select.epoll()
        held.append(watch)
        for reader, writer in pipes:
            for number in numbers[45:]:
                os.dup2(reader, number)
                watch.register(number, select.EPOLLIN)
                os.close(number)  # the file stays open, and with it the watch
                took += 1
except (OSError, AttributeError):
    pass
print("took", took)

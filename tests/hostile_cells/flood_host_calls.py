# Host calls without end, from many threads, that nobody waits for.
import threading


def ask():
    while True:
        try:
            llm_query("x" * 10_000)
        except Exception:
            pass


for _ in range(20):
    threading.Thread(target=ask, daemon=True).start()
ask()

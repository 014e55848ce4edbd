"""The client's side of the daemon: a backend whose sessions live in another process's warm house."""

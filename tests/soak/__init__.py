"""Many sessions over the pool and the daemon, and what is left after them: ``make soak``."""

"""The peers, each through its own package and in its own way."""

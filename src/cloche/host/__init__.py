"""What this machine offers to every layer above: files that a guest can have named, and their removal."""

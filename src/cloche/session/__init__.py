"""One session machine without input or output, and two thin drivers over it."""

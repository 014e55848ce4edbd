"""Backends: each opens channels to guests behind one kind of wall."""

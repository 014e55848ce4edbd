"""What runs behind and inside the Linux jail: trusted code, standard library only, started before any guest code."""

"""The jail: a Linux wall of namespaces, Landlock and seccomp, with sessions forked from a warm interpreter."""

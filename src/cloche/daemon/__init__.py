"""The daemon: one warm house for all processes of a user."""

"""Measurements of Cloche beside a bare interpreter and beside its peers: ``make bench``."""

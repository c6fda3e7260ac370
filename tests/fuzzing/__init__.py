"""Damaged files of every kind, given to every command: `python tests/fuzz.py --help`."""

"""Operators: one file each, listed in table.py."""

"""The error of the results side."""


class StoreError(Exception):
    """A results folder cannot be read or written: names the file and what would be right."""

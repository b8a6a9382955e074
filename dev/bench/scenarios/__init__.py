"""The scenarios of `python -m dev.bench`, a file each."""

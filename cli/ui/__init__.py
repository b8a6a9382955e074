"""The command `jobset ui`, which serves the page of the package `ui`."""

"""The command line: parses, calls, prints. One folder or file a command; `main.py` lists them."""

"""The command `jobset rule`, which explains a rule, with an example that breaks it."""

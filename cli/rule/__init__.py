"""`jobset rule`: what a rule says and why, with an example that breaks it."""

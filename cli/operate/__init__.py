"""`jobset logs`, `wait`, `suspend` and `resume`: what an owner of a JobSet does with it, as themselves."""

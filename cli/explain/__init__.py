"""`jobset explain`: why a JobSet waits or has failed, in plain words. `diagnose` finds the causes."""

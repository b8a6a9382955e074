"""`jobset rollback-check`: what would behave differently under the Go JobSet, and lifting our scheduling gates."""

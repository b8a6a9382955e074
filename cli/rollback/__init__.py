"""`jobset rollback-check`: what would behave otherwise under the Go JobSet, and lifting our scheduling gates."""

"""The command `jobset rollback-check`, which lists what would behave differently with the Go JobSet."""

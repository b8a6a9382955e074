"""`jobset webhooks`: disables the webhooks and enables them again (docs/break-glass.md)."""

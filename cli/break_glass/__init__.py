"""The command `jobset webhooks`, which disables the webhooks and enables them again (docs/break-glass.md)."""

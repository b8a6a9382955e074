"""`jobset webhooks`: takes the webhooks out of the way of the API server, and puts them back (docs/break-glass.md)."""

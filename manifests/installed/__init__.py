"""The state of an installation: webhooks that are off, their endpoints, and the certificates that callers trust."""

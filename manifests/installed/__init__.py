"""How what is installed stands: webhooks that are off, who answers them, and the certificates that callers trust."""

"""The command `jobset certs`, which shows the certificates of the webhooks and whether the API server trusts them."""

"""`jobset certs`: which certificates the webhooks have, and whether the API server trusts them."""

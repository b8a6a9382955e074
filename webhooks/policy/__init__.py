"""JobSetPolicies: what admission knows of them."""

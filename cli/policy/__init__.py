"""Commands about JobSetPolicies: they need no cluster."""

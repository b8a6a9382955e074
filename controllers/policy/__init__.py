"""What the manager writes about JobSetPolicies. Decides nothing about JobSets."""

"""The rules of policies, one pure function each: what the policy demands, the JobSet, its namespace -> findings.

The first paragraph of a function's docstring, and those after it, are the rule's page in docs/policy.
"""

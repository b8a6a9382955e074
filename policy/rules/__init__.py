"""The rules of policies. The function of a rule takes its field of a policy, a JobSet and the namespace. Pure.

It yields the findings. Its docstring is the page of the rule in docs/policy.
"""

"""The rules of policies, a family in each file. policy/registry.py lists them. Pure.

In the CEL of rules, `i` is the index of a ReplicatedJob, `j` the ReplicatedJob, and `p` the spec of its pods. `x` is an
item of the variable `containers` or `volumes` (policy/compiled/variables.py), such as a container `x.c`.
"""

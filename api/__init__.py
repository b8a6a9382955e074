"""The JobSet API, pure: types, names, keys, conditions, placement, and the objects that a JobSet creates.

Nothing here reads a clock, the environment or the network, and nothing here imports another package,
so that admission, the reconcile loop and offline tools share one meaning of every field.
"""

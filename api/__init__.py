"""The pure package: objects, names, keys, conditions, placement, children, field errors.

Nothing here reads a clock, the environment or the network, and nothing here imports another package,
so that admission, the reconcile loop and offline tools share one meaning of every field.
"""

"""A real local control plane: etcd, kube-apiserver, controller manager, scheduler and kwok, for tests, demo and bench.

`cluster` is the entry point for Python, `cli` for the command line.
"""

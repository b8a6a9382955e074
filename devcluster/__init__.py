"""A real local control plane: etcd, kube-apiserver, controller manager, scheduler and kwok, for tests, demo and bench.

`cluster` is the way in; `cli` puts it on the command line. It must not know of JobSet.
"""

"""Runs a real local control plane for tests, demo and benchmarks.

It consists of etcd, kube-apiserver, controller manager, scheduler and kwok, which plays fake nodes. `cluster` is the
entry point for Python, `cli` for the command line.
"""

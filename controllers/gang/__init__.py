"""Watches and writes the objects Workload, CompositePodGroup and PodGroup, by which kube-scheduler places pods."""

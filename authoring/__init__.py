"""Reads manifests that have not been sent to a cluster, and checks, converts and renders them.

- manifest_files finds and reads files, documents parses them, and keeps the positions of their values.
- checks calls the engine of the webhook, server_checks asks a cluster, and validation uses both.
- policies and suites check JobSets against JobSetPolicies of files.

The commands in `cli` print the results.
"""

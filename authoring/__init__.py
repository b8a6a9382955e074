"""Manifests before they are sent: read with the positions of their values, checked, converted, rendered.

manifest_files finds and reads, documents parses, checks judges with the engine of the webhook, server_checks asks a
cluster, validation puts them together; policies and suites hold JobSets to JobSetPolicies of files. The commands print.
"""

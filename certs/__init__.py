"""Certificates of the webhook server: a CA of our own kept in a Secret, or files given in a folder.

Imports `kube`; `app` imports it. The caller passes the names of objects.
"""

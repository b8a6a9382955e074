"""Certificates of the webhook server: issued by our own CA, which a Secret stores, or read from files in a folder.

The package knows no names of installed objects: callers pass them.
"""

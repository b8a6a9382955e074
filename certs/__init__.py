"""Certificates of the webhook server: issued by our own CA, which a Secret stores, or read from files in a folder.

`CertOptions` names the objects that the package reads and writes.
"""

"""Certificates of the webhook server: a CA of our own kept in a Secret, or files given in a folder.

Below `webhooks` and `app`, above `kube`. Must know nothing of JobSets; names of objects come in from outside.
"""

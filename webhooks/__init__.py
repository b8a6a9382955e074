"""Admission: the review codec, the ASGI application, the TLS server, and what is decided about JobSets.

Does not import `controllers`; what both need is pure and lives in `api`.
"""

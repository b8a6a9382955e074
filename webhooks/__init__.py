"""Admission: the review codec, the ASGI application, and what is decided about JobSets and their pods.

Does not import `controllers`; what both need is pure and lives in `api`.
"""

"""Admission: the review codec, the ASGI application, and the decisions about JobSets and their pods.

Does not import `controllers`. Code that both need is pure and is in `api`.
"""

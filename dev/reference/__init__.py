"""Generates pages of docs/ about rules, fields, settings and policies."""

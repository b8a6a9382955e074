"""Tests of policies: the expectations of a suite, and whether policies and an API server meet them. Pure."""

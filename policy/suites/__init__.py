"""Tests of policies: what a suite expects of which JobSets, and whether policies and an API server decide so. Pure."""

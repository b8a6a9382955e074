"""Admission of JobSets: defaults and the checks that need nothing but the objects themselves. Pure."""

"""Admission of JobSets: defaults, checks of the object, and dry runs. Pure but for `cluster` and `handlers`."""

"""Admission of JobSets: defaults, checks of the object, and dry runs. Pure, except `cluster` and `handlers`."""

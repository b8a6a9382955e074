"""Validation of JobSets by the CRD's structural schema, and its messages."""

"""Admission of pods of JobSets: priority label, exclusive placement."""

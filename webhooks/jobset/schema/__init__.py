"""The structural schema of the CRD as a judge of JobSets, and its words."""

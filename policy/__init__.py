"""JobSetPolicy, by which a platform team sets rules for JobSets, and the functions that find violations.

The package reads no clock, no environment and no network, so that admission and the command line give the same verdict.
"""

"""JobSetPolicy, by which a platform team sets rules for JobSets, and the functions that find violations of the rules.

The package reads no clock, no environment and no network, so that admission and the command line give the same verdict.
"""

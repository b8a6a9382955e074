"""JobSetPolicy: what a platform team demands of JobSets, and the functions that find violations.

Like all of `api`, nothing here reads a clock, the environment or the network, so that admission and the command line
give the same verdict.
"""

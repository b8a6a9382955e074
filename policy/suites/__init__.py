"""Tests of policies. A suite is a file that says what policies are expected to decide about some JobSets. Pure."""

"""`jobset ui`: a page that shows JobSets as they change.

It reads a cluster with the user's credentials, and writes nothing. `caches` stores what the watches report, as
`records`; `views`, `timeline` and `topology` compute what the page shows; `board` tracks which sets have changed;
`server` answers browsers; cli/ui/run.py connects them.
"""

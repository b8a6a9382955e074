"""`jobset ui`: a page that shows JobSets as they change. It reads a cluster as who runs it, and writes nothing.

caches keeps what the watches report (records says what is kept), views, timeline and topology make what the page shows
of it, board knows which sets have changed since when, server answers browsers, cli/ui/run.py puts them together.
"""

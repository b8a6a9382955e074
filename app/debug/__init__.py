"""The pages below /debug on the port of the metrics: what the manager is doing now (docs/debugging.md).

`stacks` and `objects` each write one page about this process, `pages` serves them and asks the other processes of the
manager for theirs, `level` changes how much is logged. No page shows the value of a variable.
"""

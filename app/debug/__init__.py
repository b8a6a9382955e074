"""The pages below /debug on the port of the metrics show what the manager is doing now (docs/debugging.md).

`stacks` and `objects` each write one page about this process. `pages` serves these pages and requests the same page
from the other processes of the manager. `level` changes the log level. No page shows the value of a variable.
"""

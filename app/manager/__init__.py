"""The manager: `process` has its processes and event loops, `run` the order in which one of them starts.

`supervisor` has the order in which it stops. Each of the other files is a stage or what stages share. A stage is given
what it needs and returns what it made; stages do not know each other.
"""

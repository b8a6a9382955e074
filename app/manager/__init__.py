"""The manager. `process` has its processes and event loops, `run` the order in which the stages of one process start.

`supervisor` has the order in which a process stops. Each of the other files is a stage, or is shared by stages. Stages
do not import each other: each gets its inputs as arguments and returns its results.
"""

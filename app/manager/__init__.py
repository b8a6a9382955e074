"""The manager, which admits and reconciles JobSets. `process` starts its processes, each with an event loop.

A process starts in stages, such as filling its caches. `run` starts the stages in order, and `supervisor` stops them.
Each other file is one stage, or is shared by stages. A stage does not import other stages: it gets arguments.
"""

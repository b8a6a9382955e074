"""The fields of the spec that the Go JobSet does not have. A client that is built on its types forgets them."""

OWN_FIELDS: tuple[tuple[str, ...], ...] = (
    ("executionPolicy",),
    ("scheduling",),
    ("activeDeadlineSeconds",),
    ("successPolicy", "minSucceeded"),
    ("successPolicy", "unit"),
    ("failurePolicy", "failOn"),
    ("failurePolicy", "inPlaceRestarts"),
    ("failurePolicy", "startTimeoutSeconds"),
    ("failurePolicy", "nodeFailure"),
    ("failurePolicy", "agent"),
    ("failurePolicy", "avoidNodes"),
    ("failurePolicy", "rules", "*", "onExitCodes"),
    ("failurePolicy", "rules", "*", "onPodReasons"),
    ("failurePolicy", "rules", "*", "maxRestarts"),
    ("failurePolicy", "rules", "*", "then"),
    ("replicatedJobs", "*", "exitCodePolicy"),
)
"""By the path below `spec`; `*` stands for each item of a list whose items have names."""

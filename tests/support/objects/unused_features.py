"""The gates of what docs/concepts/recovery.md describes, for sets that use none of it."""

GATES = dict.fromkeys(
    (
        "JobSetActiveDeadlineSeconds",
        "JobSetAvoidNodes",
        "JobSetFailureEscalation",
        "JobSetNodeFailure",
        "JobSetStartTimeout",
    ),
    True,
)
"""All but JobSetRecoveryTimes, which adds `status.recovery` to every set: turning it on asks for that."""

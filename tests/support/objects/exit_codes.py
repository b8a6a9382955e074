"""Failed pods with exit codes, and failure policies with rules."""

from controllers.planning.observed import Ended, FailedPod

BY_POLICY = "PodFailurePolicy"


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def pod(name: str, *codes: int, second: int = 0, node: str = "n", **more) -> FailedPod:
    """A failed pod; its containers are called c0, c1, ... and end one after the other."""
    ends = tuple(Ended(f"c{i}", code, at(second + i)) for i, code in enumerate(codes) if code)
    ended_at = at(second + max(len(codes) - 1, 0)) if codes else at(second)
    return FailedPod(name, node, ends, ended_at, **more)


def rules(*rules_: dict) -> dict:
    return {"maxRestarts": 9, "rules": [{"name": f"r{i}", **rule} for i, rule in enumerate(rules_)]}


def on(*values: int, operator: str = "In", **more) -> dict:
    return {"onExitCodes": {"operator": operator, "values": list(values)}, **more}


STOP = on(3, action="FailJobSet")


ENDED = {
    "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": at(2)}]
}
"""The status of a Job that has failed."""

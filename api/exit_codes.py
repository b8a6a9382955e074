"""Meanings of the exit codes of containers: the table of the training operators, as rules of a podFailurePolicy.

An `exitCodePolicy` is compiled into the `podFailurePolicy` of the child Jobs, so that the Job controller acts on it
without us. Pure.
"""

from typing import Final

from api.policies import ExitCodePolicy
from kube.model.meta import JSON

PERMANENT: Final = (1, 2, 126, 127, 128, 139)
"""A retry cannot help: general errors, wrong use of a command, not executable, not found, wrong argument of exit,
SIGSEGV."""

RETRYABLE: Final = (130, 137, 138, 143)
"""A retry may help: SIGINT, SIGKILL, SIGUSR1 (for programs that ask for a retry), SIGTERM."""


def meanings(policy: ExitCodePolicy) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(permanent, retryable) codes, each ascending and without duplicates. If both are empty: the tables above."""
    if not policy.permanent and not policy.retryable:
        return PERMANENT, RETRYABLE
    return tuple(sorted({*policy.permanent})), tuple(sorted({*policy.retryable}))


def pod_failure_rules(job_spec: JSON, policy: ExitCodePolicy | None) -> list[JSON]:
    """The rules of a child Job's podFailurePolicy: those of its template as they are, then those of the policy.

    At most two are added: FailJob for permanent codes, Ignore (the pod is created again and not counted) for retryable
    ones. `job_spec` is the template's (batch/v1 JobSpec); the first rule that matches any container of a pod wins.
    Permanent codes come first: when the program ends with one, sidecars are ended with 143.
    """
    own: list[JSON] = (job_spec.get("podFailurePolicy") or {}).get("rules") or []
    if policy is None:
        return own
    permanent, retryable = meanings(policy)
    named: JSON = {"containerName": policy.container_name} if policy.container_name else {}
    return [
        *own,
        *(
            {"action": action, "onExitCodes": {**named, "operator": "In", "values": list(codes)}}
            for action, codes in (("FailJob", permanent), ("Ignore", retryable))
            if codes
        ),
    ]


def job_spec_with(job_spec: JSON, policy: ExitCodePolicy | None) -> JSON:
    """The template's Job spec with the policy compiled into it; the same object if there is no policy."""
    if policy is None:
        return job_spec
    rules = pod_failure_rules(job_spec, policy)
    return {**job_spec, "podFailurePolicy": {**(job_spec.get("podFailurePolicy") or {}), "rules": rules}}

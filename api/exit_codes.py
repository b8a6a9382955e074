"""Compiles an `exitCodePolicy` into the `podFailurePolicy` of the child Jobs, which the Job controller applies. Pure.

By default, the meanings of exit codes are those of the Kubeflow training operators.
"""

from typing import Final

from api.policies import ExitCodePolicy
from kube.model.meta import JSON

PERMANENT: Final = (1, 2, 126, 127, 128, 139)
"""Exit codes for which a retry cannot help: general errors, wrong use of a command, not executable, not found, wrong
argument of exit, SIGSEGV."""

RETRYABLE: Final = (130, 137, 138, 143)
"""Exit codes for which a retry may help: SIGINT, SIGKILL, SIGUSR1 (for programs that ask for a retry), SIGTERM."""


def exit_codes_of(policy: ExitCodePolicy) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The (permanent, retryable) codes, each ascending and without duplicates; the defaults if the policy has none."""
    if not policy.permanent and not policy.retryable:
        return PERMANENT, RETRYABLE
    return tuple(sorted({*policy.permanent})), tuple(sorted({*policy.retryable}))


def pod_failure_rules(job_spec: JSON, policy: ExitCodePolicy | None) -> list[JSON]:
    """The rules of a child Job's podFailurePolicy: the rules of its template, then the rules of the policy.

    At most two rules are added: FailJob for permanent codes, and Ignore (the pod is created again and not counted) for
    retryable codes. `job_spec` is that of the template (batch/v1 JobSpec). The first rule that matches any container of
    a pod decides. Permanent codes come first: when the program ends with such a code, sidecars are ended with 143.
    """
    template_rules: list[JSON] = (job_spec.get("podFailurePolicy") or {}).get("rules") or []
    if policy is None:
        return template_rules
    permanent, retryable = exit_codes_of(policy)
    container: JSON = {"containerName": policy.container_name} if policy.container_name else {}
    return [
        *template_rules,
        *(
            {"action": action, "onExitCodes": {**container, "operator": "In", "values": list(codes)}}
            for action, codes in (("FailJob", permanent), ("Ignore", retryable))
            if codes
        ),
    ]


def job_spec_with(job_spec: JSON, policy: ExitCodePolicy | None) -> JSON:
    """The Job spec of the template with the policy compiled into it; the same object if there is no policy."""
    if policy is None:
        return job_spec
    rules = pod_failure_rules(job_spec, policy)
    return {**job_spec, "podFailurePolicy": {**(job_spec.get("podFailurePolicy") or {}), "rules": rules}}

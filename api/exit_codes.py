"""Translates the `exitCodePolicy` of a ReplicatedJob into the `podFailurePolicy` of its Jobs. Pure.

An `exitCodePolicy` lists permanent exit codes, which fail the Job at once, and retryable exit codes, after which the
pod is created again for free. The Job controller of Kubernetes applies the result. The default lists are those of the
Kubeflow training operators.
"""

from typing import Final

from api.policies import ExitCodePolicy
from kube.model.meta import JSON

PERMANENT: Final = (1, 2, 126, 127, 128, 139)
"""Exit codes after which a retry does not help: a general error, wrong use of a shell command, a command that is not
executable or not found, a wrong argument of exit, SIGSEGV."""

RETRYABLE: Final = (130, 137, 138, 143)
"""Exit codes after which a retry may help: SIGINT, SIGKILL, SIGUSR1 (by which programs ask for a retry), SIGTERM."""


def exit_codes_of(policy: ExitCodePolicy) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The permanent and the retryable codes, each ascending and without duplicates; the defaults if both are empty."""
    if not policy.permanent and not policy.retryable:
        return PERMANENT, RETRYABLE
    return tuple(sorted({*policy.permanent})), tuple(sorted({*policy.retryable}))


def pod_failure_rules(job_spec: JSON, policy: ExitCodePolicy | None) -> list[JSON]:
    """The rules of a Job's podFailurePolicy: the rules of its template, then at most two rules of the policy.

    The rule for permanent codes has the action FailJob. The rule for retryable codes has the action Ignore: the pod is
    created again and not counted. `job_spec`: the Job spec of the template (batch/v1).

    The first rule that matches a container of the pod decides. The permanent codes come first, since sidecars often end
    with 143, which is retryable, when the program has ended with a permanent code.
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
    """The Job spec of the template with the rules of the policy; the same object if there is no policy."""
    if policy is None:
        return job_spec
    rules = pod_failure_rules(job_spec, policy)
    return {**job_spec, "podFailurePolicy": {**(job_spec.get("podFailurePolicy") or {}), "rules": rules}}

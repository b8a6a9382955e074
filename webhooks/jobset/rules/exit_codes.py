"""Exit codes (exitCodePolicy, onExitCodes): they need containers that do not restart, and have one meaning each."""

from collections.abc import Iterable, Iterator
from functools import partial

from api.exit_codes import exit_codes_of, pod_failure_rules
from api.jobset import JobSet
from api.policies import ExitCodePolicy, FailurePolicyRule
from api.restart_agent import reporting_container
from kube.model.field import ErrorType, FieldError, Path, join_names
from kube.model.jsontree import dig
from kube.model.meta import JSON
from kube.model.suggest import did_you_mean
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.failure import RULES
from webhooks.jobset.subject import Entry, Subject

MAX_POD_FAILURE_RULES = 20
"""The most rules of podFailurePolicy that batch/v1 allows."""
_MAX_NAMED = 8

_POLICY = Source("replicatedJobs[].exitCodePolicy")
RESTART_POLICY = _POLICY.error(
    "exit-code-policy-restart-policy",
    "exitCodePolicy needs restartPolicy Never: else containers are restarted in their pod, and no pod fails by"
    " an exit code",
    "write restartPolicy: Never (where it is left out it is OnFailure), or remove exitCodePolicy",
)
TWO_MEANINGS = _POLICY.error(
    "exit-code-policy-two-meanings",
    "exit code {code} is permanent, too",
    "keep it in one of the two lists",
    ErrorType.DUPLICATE,
)
CONTAINER = _POLICY.error(
    "exit-code-policy-container",
    "no container or init container of {name} has this name",
    "{names_that_exist}",
    ErrorType.NOT_FOUND,
)
RULES_TOO_MANY = _POLICY.error(
    "exit-code-policy-rules",
    f"podFailurePolicy may have {MAX_POD_FAILURE_RULES} rules and would have {{count}}: exitCodePolicy adds {{added}}",
    "remove {surplus} rules of podFailurePolicy",
    ErrorType.TOO_MANY,
)
POD_REPLACEMENT = _POLICY.error(
    "exit-code-policy-pod-replacement",
    "exitCodePolicy needs podReplacementPolicy Failed: how a pod ended is known only once it has",
    "write podReplacementPolicy: Failed, or leave it out",
)
TAKEN_BEFORE = _POLICY.warning(
    "exit-code-policy-taken-before",
    "podFailurePolicy.rules[{by}] decides {codes} first",
    "keep one of them",
)
_CODES = Source("failurePolicy.rules[].onExitCodes")
NO_VALUES = _CODES.error(
    "failure-rule-codes-empty",
    "at least one exit code is needed",
    "name the codes, or remove onExitCodes to match whatever the code",
)
RULE_RESTART_POLICY = _CODES.error(
    "failure-rule-codes-restart-policy",
    "onExitCodes needs restartPolicy Never, which is not that of {names}: containers are restarted in their pod"
    " there, and no pod fails by an exit code",
    "write restartPolicy: Never there (where it is left out it is OnFailure), or name only others in"
    " targetReplicatedJobs",
)
RULE_CONTAINER = _CODES.error(
    "failure-rule-codes-container",
    "no target of the rule has a container or init container of this name",
    "{names_that_exist}",
    ErrorType.NOT_FOUND,
)


def check_exit_code_policy(_: Subject, entry: Entry) -> Iterator[FieldError]:
    """Findings about the Job of a ReplicatedJob with an exitCodePolicy."""
    policy = entry.rjob.exit_code_policy
    if policy is None:
        return
    path, pod = entry.path.at("exitCodePolicy"), entry.job.template.spec
    if not entry.never_restarts:
        yield RESTART_POLICY.at(entry.pod_path.at("spec", "restartPolicy"), pod.restart_policy)
    for code_path, code in path.at("retryable").each(policy.retryable):
        if code in policy.permanent:
            yield TWO_MEANINGS.at(code_path, code, code=code)
    if policy.container_name and policy.container_name not in entry.container_names:
        suggestion = partial(did_you_mean, policy.container_name, entry.container_names, intro="there are")
        name = entry.rjob.name
        yield CONTAINER.at(path.at("containerName"), policy.container_name, name=name, names_that_exist=suggestion)
    if entry.job.pod_replacement_policy not in {None, "Failed"}:
        yield POD_REPLACEMENT.at(entry.job_path.at("podReplacementPolicy"), entry.job.pod_replacement_policy)
    own_rules = dig(entry.job.pod_failure_policy, "rules") or []
    yield from _check_rule_count(entry, len(own_rules))
    yield from _check_codes(path, policy, own_rules)


def _check_rule_count(entry: Entry, own_count: int) -> Iterator[FieldError]:
    path = entry.job_path.at("podFailurePolicy", "rules")
    count = len(pod_failure_rules(entry.rjob.job_spec, entry.rjob.exit_code_policy))
    surplus = count - MAX_POD_FAILURE_RULES
    if surplus > 0 and own_count <= MAX_POD_FAILURE_RULES:  # the Job API refuses a longer list in the template
        yield RULES_TOO_MANY.at(path, count, count=count, added=count - own_count, surplus=surplus)


def _check_codes(path: Path, policy: ExitCodePolicy, own_rules: list[JSON]) -> Iterator[FieldError]:
    """Findings about codes of the policy that the Job's own rules, which come first, match already."""
    permanent, retryable = exit_codes_of(policy)
    undecided_codes = {*permanent, *retryable}
    for i, rule in enumerate(own_rules[:MAX_POD_FAILURE_RULES]):
        decided_codes = {code for code in undecided_codes if _decides(rule, code, policy.container_name)}
        if decided_codes:
            codes = join_names([str(code) for code in sorted(decided_codes)], _MAX_NAMED)
            yield TAKEN_BEFORE.at(path, by=i, codes=codes)
        undecided_codes -= decided_codes


def _decides(rule: JSON, code: int, container: str) -> bool:
    """Whether a rule of podFailurePolicy matches each pod whose container (empty: any) ended with the code."""
    codes, values = dig(rule, "onExitCodes"), dig(rule, "onExitCodes", "values") or []
    if codes is None or (dig(codes, "containerName") or "") not in {"", container}:
        return False
    return bool((code in values) == (dig(codes, "operator") == "In"))


def check_failure_rules(subject: Subject) -> Iterator[FieldError]:
    """Findings about the target Jobs of failure policy rules with onExitCodes."""
    if all(rule.on_exit_codes is None for rule in subject.failure_policy.rules):
        return
    names_without_codes = _names_without_codes(subject.js, subject.entries)
    containers = tuple(dict.fromkeys(name for entry in subject.entries for name in entry.container_names))
    for rule_path, rule in RULES.each(subject.failure_policy.rules):
        if rule.on_exit_codes is None:
            continue
        path = rule_path.at("onExitCodes")
        if not rule.on_exit_codes.values:
            yield NO_VALUES.at(path.at("values"), [])
        if rule.target_replicated_jobs:
            targets = subject.targets(rule.target_replicated_jobs)
            names = _names_without_codes(subject.js, targets)
            container_names = tuple(dict.fromkeys(name for entry in targets for name in entry.container_names))
        else:
            names, container_names = names_without_codes, containers
        if names:
            yield RULE_RESTART_POLICY.at(path, names=join_names(names, _MAX_NAMED))
        yield from _check_container(path.at("containerName"), rule, container_names)


def _names_without_codes(js: JobSet, entries: Iterable[Entry]) -> tuple[str, ...]:
    """Names of the ReplicatedJobs whose pods have neither exit codes that count nor an agent that reports them."""
    return tuple(e.rjob.name for e in entries if not (e.never_restarts or reporting_container(js, e.rjob)))


def _check_container(path: Path, rule: FailurePolicyRule, container_names: tuple[str, ...]) -> Iterator[FieldError]:
    name = rule.on_exit_codes.container_name if rule.on_exit_codes else ""
    if name and name not in container_names:
        yield RULE_CONTAINER.at(path, name, names_that_exist=partial(did_you_mean, name, container_names))

"""spec.scheduling, level by level: feature gates, unions, names, and fields that exclude each other.

A level is the whole set, an entry of `replicatedJobs`, or the `job` of an entry. A line has the levels that apply to
one pod, from the set down to the pod.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from api.gang_api import GATE, LEVELS_GATE
from api.scheduling import (
    ONE_MODE,
    ONE_POLICY,
    ONE_SOURCE,
    DisruptionMode,
    EntryScheduling,
    GroupResourceClaim,
    GroupsPolicy,
    JobScheduling,
    PodsPolicy,
    SchedulingConstraints,
)
from kube.model.field import SPEC, ErrorType, FieldError, Layer, Path, Rule
from kube.model.jsontree import dig
from kube.model.validation import dns1123_label, dns1123_subdomain, qualified_name
from webhooks.jobset.rules import Source
from webhooks.jobset.subject import Subject

SCHEDULING = SPEC.at("scheduling")
ENTRIES = SCHEDULING.at("replicatedJobs")
POLICY, MODE, CLAIMS = "schedulingPolicy", "disruptionMode", "resourceClaims"
TOPOLOGY = ("schedulingConstraints", "topology")

_SOURCE = Source("spec.scheduling")
_BOTH_GATES = f"{GATE}=true,{LEVELS_GATE}=true"


def _literal(text: str) -> str:
    """A text as a template without placeholders."""
    return text.replace("{", "{{").replace("}", "}}")


POLICY_UNION = Source("CRD rule on schedulingPolicy", Layer.SCHEMA).error(
    "scheduling-one-policy",
    _literal(ONE_POLICY),
    "{fix}",
)
MODE_UNION = Source("CRD rule on disruptionMode", Layer.SCHEMA).error(
    "scheduling-one-mode",
    _literal(ONE_MODE),
    "{fix}",
)
SOURCE_UNION = Source("CRD rule on resourceClaims", Layer.SCHEMA).error(
    "scheduling-one-claim-source",
    _literal(ONE_SOURCE),
    "{fix}",
)
NO_GATE = _SOURCE.error(
    "scheduling-gate",
    f"needs the feature gate {GATE}",
    "start the manager with --feature-gates={gates}, or remove spec.scheduling: pods are then scheduled one by one",
    ErrorType.FORBIDDEN,
    gates="{gates}",
)
LEVELS = Source("KEP-969").error(
    "scheduling-levels",
    f"{{what}} needs the feature gate {LEVELS_GATE}: groups of groups",
    f"start the manager with --feature-gates={_BOTH_GATES}, or {{fix}}",
    ErrorType.FORBIDDEN,
    gates=_BOTH_GATES,
)
TOPOLOGY_MISSING = _SOURCE.error(
    "scheduling-topology-missing",
    "constraints without a topology say nothing",
    "write `topology: [{{key: LABEL}}]` with the label of the nodes whose values are the domains, or remove"
    " schedulingConstraints",
    ErrorType.REQUIRED,
)
TOPOLOGY_KEY = _SOURCE.error(
    "scheduling-topology-key",
    "must be the key of a node label: {complaint}",
    "name the label whose values are the domains, such as topology.kubernetes.io/zone",
)
TOPOLOGY_AGAIN = _SOURCE.warning("scheduling-topology-again", "no effect: a level above has it", "remove it")
BASIC_ALL = Source("KEP-5710").error(
    "scheduling-basic-all",
    "pods that are scheduled one by one (basic) cannot be preempted as one (all)",
    "write schedulingPolicy gang: {{}}, or disruptionMode single: {{}}",
)
SINGLE_BELOW_ALL = Source("KEP-6012").error(
    "scheduling-single-below-all",
    "{above} preempts everything below as one (all): no part can be preempted alone (single)",
    "remove it, or write single: {{}} above as well",
)
CLAIMS_ABOVE_JOBS = Source("Kubernetes 1.37: CompositePodGroup").error(
    "scheduling-claims-above-jobs",
    "only a group of pods can have claims, and with job this is a group of groups",
    "move them below job: each Job's pods then share a claim",
    ErrorType.FORBIDDEN,
)
CLAIM_NAME = Source("Kubernetes 1.37: PodGroup").error(
    "scheduling-claim-name",
    "{complaint}",
    "use lower case letters, digits and '-'",
)


@dataclass(frozen=True, slots=True)
class Level:
    """The scheduling fields of one level, and the ReplicatedJobs that it is about."""

    path: Path
    targets: tuple[str, ...]
    policy: GroupsPolicy | PodsPolicy | None
    constraints: SchedulingConstraints | None
    mode: DisruptionMode | None
    claims: tuple[GroupResourceClaim, ...] = ()

    @property
    def topology(self) -> str:
        """The key of the topology; empty if the level has none."""
        return self.constraints.topology[0].key if self.constraints is not None and self.constraints.topology else ""

    @property
    def has_policy(self) -> bool:
        return any(field is not None for field in (self.policy, self.constraints, self.mode))


def lines(subject: Subject) -> Iterator[tuple[Level, ...]]:
    """The line of each entry; without entries, the line that has only the level of the set."""
    spec = subject.js.spec.scheduling
    if spec is None:
        return
    names = tuple(entry.rjob.name for entry in subject.entries if not entry.rjob.spare_for)
    top = Level(SCHEDULING, names, spec.scheduling_policy, spec.scheduling_constraints, spec.disruption_mode)
    for path, entry in ENTRIES.each(spec.replicated_jobs):
        lower = [_level(path, entry.target_replicated_jobs, entry)]
        if entry.job is not None:
            lower.append(_level(path.at("job"), entry.target_replicated_jobs, entry.job))
        yield (top, *lower)
    if not spec.replicated_jobs:
        yield (top,)


def _level(path: Path, names: tuple[str, ...], level: EntryScheduling | JobScheduling) -> Level:
    fields = (level.scheduling_policy, level.scheduling_constraints, level.disruption_mode)
    return Level(path, names, *fields, level.resource_claims)


def levels(subject: Subject) -> Iterator[Level]:
    """Each level once, the level of the set first."""
    for number, line in enumerate(lines(subject)):
        yield from line[1 if number else 0 :]


def check_gates(subject: Subject) -> Iterator[FieldError]:
    """Check the feature gates: one for the field, and one for more than one level, which the Go JobSet lacks."""
    spec = subject.js.spec.scheduling
    if spec is None or subject.gates[LEVELS_GATE]:
        return
    level_findings = list(_deeper_level_findings(subject))
    if subject.gates[GATE]:
        yield from level_findings
    else:
        gates = f"{GATE}=true" + (f",{LEVELS_GATE}=true" if level_findings else "")
        yield NO_GATE.at(SCHEDULING, gates=gates)


def _deeper_level_findings(subject: Subject) -> Iterator[FieldError]:
    """Findings about levels that need groups of groups."""
    has_findings = False
    for k, (top, *lower) in enumerate(lines(subject)):
        if lower and top.has_policy and not k:
            has_findings = True
            yield LEVELS.at(ENTRIES, what="a level below the whole set", fix="say it on one of the levels")
        if len(lower) > 1:
            if lower[0].has_policy:
                has_findings = True
                yield LEVELS.at(lower[1].path, what="a level below the entry", fix="say it on one of the levels")
            if len(lower[1].targets) > 1:
                has_findings = True
                fix = "give each ReplicatedJob an entry of its own"
                yield LEVELS.at(lower[1].path, what="job for several ReplicatedJobs", fix=fix)
    forest = subject.forest_of_single_jobs
    if not has_findings and forest is not None and forest.needs_composites:
        feature = "a constraint or mode of the whole set whose ReplicatedJobs do not start together"
        yield LEVELS.at(SCHEDULING, what=feature, fix="say it in an entry for each in replicatedJobs")


def check_unions(subject: Subject) -> Iterator[FieldError]:
    """Check rules of the CRD, since the API server would report only these faults."""
    for level in levels(subject):
        if level.policy is not None and (level.policy.basic is None) == (level.policy.gang is None):
            yield _union_finding(
                subject, POLICY_UNION, level.path.at(POLICY), level.policy.basic is None, ("basic", "gang")
            )
        if level.mode is not None and (level.mode.single is None) == (level.mode.all is None):
            yield _union_finding(subject, MODE_UNION, level.path.at(MODE), level.mode.all is None, ("single", "all"))
        for claim_path, claim in level.path.at(CLAIMS).each(level.claims):
            if bool(claim.resource_claim_name) == bool(claim.resource_claim_template_name):
                names = ("resourceClaimName", "resourceClaimTemplateName")
                yield _union_finding(subject, SOURCE_UNION, claim_path, not claim.resource_claim_name, names)


def _union_finding(subject: Subject, rule: Rule, path: Path, is_empty: bool, names: tuple[str, str]) -> FieldError:
    """The finding about a value that has none (`is_empty`), or both, of two fields."""
    fix = f"add {names[1]}, or {names[0]}" if is_empty else f"remove {names[0]} or {names[1]}"
    return rule.at(path, dig(subject.raw_spec, *path.parts[1:]), fix=fix)


def check_names(subject: Subject) -> Iterator[FieldError]:
    """Check that topology keys are label keys, and that claims have valid names."""
    for level in levels(subject):
        if level.constraints is not None and not level.constraints.topology:
            yield TOPOLOGY_MISSING.at(level.path.at(*TOPOLOGY))
        topology = level.constraints.topology if level.constraints else ()
        for path, constraint in level.path.at(*TOPOLOGY).each(topology):
            for complaint in qualified_name(constraint.key):
                yield TOPOLOGY_KEY.at(path.at("key"), constraint.key, complaint=complaint)
        for path, claim in level.path.at(CLAIMS).each(level.claims):
            for complaint in dns1123_label(claim.name):
                yield CLAIM_NAME.at(path.at("name"), claim.name, complaint=complaint)
            for field, name in (
                ("resourceClaimName", claim.resource_claim_name),
                ("resourceClaimTemplateName", claim.resource_claim_template_name),
            ):
                for complaint in dns1123_subdomain(name) if name else ():
                    yield CLAIM_NAME.at(path.at(field), name, complaint=complaint)


def check_combinations(subject: Subject) -> Iterator[FieldError]:
    """Findings about fields of a level that exclude each other, or fields of the levels above."""
    for line in lines(subject):
        lowest = line[-1]
        is_basic = lowest.policy is not None and lowest.policy.basic is not None
        if is_basic and lowest.mode is not None and lowest.mode.all:
            yield BASIC_ALL.at(lowest.path.at(MODE), {"all": {}})
        if len(line) > 2 and line[1].claims:
            yield CLAIMS_ABOVE_JOBS.at(line[1].path.at(CLAIMS))
        for upper, lower in pairwise(level for level in line if level.mode is not None):
            if upper.mode is not None and upper.mode.all and lower.mode is not None and lower.mode.single:
                yield SINGLE_BELOW_ALL.at(lower.path.at(MODE), {"single": {}}, above=str(upper.path))
        for k, lower in enumerate(line):
            if lower.topology and lower.topology in {upper.topology for upper in line[:k]}:
                yield TOPOLOGY_AGAIN.at(lower.path.at(*TOPOLOGY, 0, "key"))

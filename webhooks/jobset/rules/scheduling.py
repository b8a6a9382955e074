"""spec.scheduling, level by level: feature gates, unions, names, and fields that exclude each other."""

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
_BOTH = f"{GATE}=true,{LEVELS_GATE}=true"


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
    f"start the manager with --feature-gates={_BOTH}, or {{fix}}",
    ErrorType.FORBIDDEN,
    gates=_BOTH,
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
    """The scheduling fields of one level: the whole set, an entry, or with `each_job` the Jobs of an entry."""

    path: Path
    targets: tuple[str, ...]
    policy: GroupsPolicy | PodsPolicy | None
    constraints: SchedulingConstraints | None
    mode: DisruptionMode | None
    claims: tuple[GroupResourceClaim, ...] = ()
    each_job: bool = False

    @property
    def topology(self) -> str:
        """The key; empty if there is none."""
        return self.constraints.topology[0].key if self.constraints is not None and self.constraints.topology else ""

    @property
    def has_policy(self) -> bool:
        return any(field is not None for field in (self.policy, self.constraints, self.mode))


def lines(subject: Subject) -> Iterator[tuple[Level, ...]]:
    """The levels from the set down to the pods, for each entry, or the one of the set alone."""
    spec = subject.js.spec.scheduling
    if spec is None:
        return
    grouped = tuple(entry.rjob.name for entry in subject.entries if not entry.rjob.spare_for)
    top = Level(SCHEDULING, grouped, spec.scheduling_policy, spec.scheduling_constraints, spec.disruption_mode)
    for path, entry in ENTRIES.each(spec.replicated_jobs):
        names = entry.target_replicated_jobs
        below = [_level(path, names, entry)]
        if entry.job is not None:
            below.append(_level(path.at("job"), names, entry.job))
        yield (top, *below)
    if not spec.replicated_jobs:
        yield (top,)


def _level(path: Path, names: tuple[str, ...], level: EntryScheduling | JobScheduling) -> Level:
    rules = (level.scheduling_policy, level.scheduling_constraints, level.disruption_mode)
    return Level(path, names, *rules, level.resource_claims, each_job=isinstance(level, JobScheduling))


def levels(subject: Subject) -> Iterator[Level]:
    """Each level once, the top one first."""
    for number, line in enumerate(lines(subject)):
        yield from line[1 if number else 0 :]


def check_gates(subject: Subject) -> Iterator[FieldError]:
    """Without its gates the field is refused; with only the first one it may have one level, as in the Go JobSet."""
    spec = subject.js.spec.scheduling
    if spec is None or subject.gates[LEVELS_GATE]:
        return
    found = list(_deeper_levels(subject))
    if subject.gates[GATE]:
        yield from found
    else:
        wanted = f"{GATE}=true" + (f",{LEVELS_GATE}=true" if found else "")
        yield NO_GATE.at(SCHEDULING, gates=wanted)


def _deeper_levels(subject: Subject) -> Iterator[FieldError]:
    found = False
    for k, (top, *below) in enumerate(lines(subject)):
        if below and top.has_policy and not k:
            found = True
            yield LEVELS.at(ENTRIES, what="a level below the whole set", fix="say it on one of the levels")
        if len(below) > 1:
            if below[0].has_policy:
                found = True
                yield LEVELS.at(below[1].path, what="a level below the entry", fix="say it on one of the levels")
            if len(below[1].targets) > 1:
                found = True
                fix = "give each ReplicatedJob an entry of its own"
                yield LEVELS.at(below[1].path, what="job for several ReplicatedJobs", fix=fix)
    if not found and subject.shape is not None and subject.shape.needs_composites:
        feature = "a constraint or mode of the whole set whose ReplicatedJobs do not start together"
        yield LEVELS.at(SCHEDULING, what=feature, fix="say it in an entry for each in replicatedJobs")


def check_unions(subject: Subject) -> Iterator[FieldError]:
    """The CRD's own rules, reported here, since the CRD would report them alone."""
    for level in levels(subject):
        if level.policy is not None and (level.policy.basic is None) == (level.policy.gang is None):
            yield _union(subject, POLICY_UNION, level.path.at(POLICY), level.policy.basic is None, ("basic", "gang"))
        if level.mode is not None and (level.mode.single is None) == (level.mode.all is None):
            yield _union(subject, MODE_UNION, level.path.at(MODE), level.mode.all is None, ("single", "all"))
        for claim_path, claim in level.path.at(CLAIMS).each(level.claims):
            if bool(claim.resource_claim_name) == bool(claim.resource_claim_template_name):
                names = ("resourceClaimName", "resourceClaimTemplateName")
                yield _union(subject, SOURCE_UNION, claim_path, not claim.resource_claim_name, names)


def _union(subject: Subject, rule: Rule, path: Path, none: bool, names: tuple[str, str]) -> FieldError:
    fix = f"add {names[1]}, or {names[0]}" if none else f"remove {names[0]} or {names[1]}"
    return rule.at(path, dig(subject.raw_spec, *path.parts[1:]), fix=fix)


def check_names(subject: Subject) -> Iterator[FieldError]:
    """Topology keys are label keys, and claims have valid names."""
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
    """Fields of a level that exclude each other, or fields of the levels above."""
    for line in lines(subject):
        *above, last = line
        if last.policy is not None and last.policy.basic is not None and last.mode is not None and last.mode.all:
            yield BASIC_ALL.at(last.path.at(MODE), {"all": {}})
        if above and len(line) > 2 and line[1].claims:
            yield CLAIMS_ABOVE_JOBS.at(line[1].path.at(CLAIMS))
        for upper, lower in _pairs(line):
            if upper.mode is not None and upper.mode.all and lower.mode is not None and lower.mode.single:
                yield SINGLE_BELOW_ALL.at(lower.path.at(MODE), {"single": {}}, above=str(upper.path))
        for k, lower in enumerate(line):
            if lower.topology and lower.topology in {upper.topology for upper in line[:k]}:
                yield TOPOLOGY_AGAIN.at(lower.path.at(*TOPOLOGY, 0, "key"))


def _pairs(line: tuple[Level, ...]) -> Iterator[tuple[Level, Level]]:
    """Pairs of a level with a disruption mode and the next lower one that has one."""
    return pairwise(level for level in line if level.mode is not None)

"""Why a tree of groups never fits on the nodes: missing labels, or domains that are too small. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from api.gangs import Group
from api.node_offers import format_amount, format_number
from diagnose.domains import noun
from diagnose.finding import Finding, Level, pluralize
from diagnose.needs import SeenSpec
from diagnose.nodes import Nodes, shape_of
from kube.model.requests import sum_requests


def why_never(root: Group, nodes: Nodes, pods: Mapping[str, SeenSpec]) -> list[Finding]:
    """Findings about why a tree never gets nodes; empty if unknown. `pods`: one pod without a node for each Job."""
    return _labels(root, nodes) or _small_domains(root, nodes, pods)


def paths(group: Group, above: Sequence[Group] = ()) -> Iterator[list[Group]]:
    """The path from the root to each group of a tree."""
    yield [*above, group]
    for child in group.children:
        yield from paths(child, [*above, group])


def levels(path: Sequence[Group]) -> list[str]:
    """The topology keys of the groups on a path, from the root."""
    return list(dict.fromkeys(group.topology for group in path if group.topology))


def _labels(root: Group, nodes: Nodes) -> list[Finding]:
    """Findings about topology labels that no node has, or about labels of one path that no node has together."""
    keys = dict.fromkeys(group.topology for group in root.walk() if group.topology)
    missing = [(key, missing_label) for key in keys if (missing_label := nodes.missing_label(key)) is not None]
    if missing:
        return [_no_label(missing_label.message, missing_label.fix, key) for key, missing_label in missing]
    for together in dict.fromkeys(tuple(levels(path)) for path in paths(root)):
        if len(nodes) and not nodes.has_domains(together):
            return [_no_label(f"no node has the labels {' and '.join(together)} at once", "", *together)]
    return []


def _no_label(message: str, instead: str, *keys: str) -> Finding:
    """The finding about labels that nodes lack. `instead`: the beginning of the fix, ending in a comma, or empty."""
    label = f"kubectl label node NODE {' '.join(f'{key}=VALUE' for key in keys)}"
    fix = f"{instead}{'or ' if instead else ''}{label}; kubectl get nodes --show-labels shows the labels of the nodes"
    return Finding(Level.FAULT, "no-such-label", message, fix=fix)


def _small_domains(root: Group, nodes: Nodes, pods: Mapping[str, SeenSpec]) -> list[Finding]:
    """Findings about groups with more pods than the largest idle domain takes: one for each template of groups."""
    findings: dict[str, Finding] = {}
    for path in paths(root):
        group = path[-1]
        if group.topology and group.template not in findings and (finding := _too_small(path, nodes, pods)) is not None:
            findings[group.template] = finding
    return list(findings.values())


def _too_small(path: Sequence[Group], nodes: Nodes, pods: Mapping[str, SeenSpec]) -> Finding | None:
    group, keys = path[-1], levels(path)
    at_once = _pods_at_once(group)
    kinds: dict[bytes, tuple[SeenSpec, int]] = {}
    for below in group.walk():
        for job, number in below.jobs:
            if (spec := pods.get(job)) is not None:
                kind = shape_of(spec)
                kinds[kind] = (spec, kinds.get(kind, (spec, 0))[1] + number)
    for spec, number in kinds.values():
        # Pods of other kinds may be among the pods that have to be placed at once.
        wanted, room = at_once - (group.pods - number), nodes.largest(spec, tuple(keys))
        if room < wanted:
            holds = (
                f"the largest {noun(group.topology)} holds {room}" if room else f"no {noun(group.topology)} holds any"
            )
            kind_text = "" if number == group.pods else " of one kind"
            return _finding(path, f"{holds} of its {pluralize(number, 'pod')}{kind_text}")
    return _too_much(path, nodes, kinds.values()) if at_once == group.pods else None


def _too_much(path: Sequence[Group], nodes: Nodes, kinds: Iterable[tuple[SeenSpec, int]]) -> Finding | None:
    """The finding about a resource of which all pods together request more than any domain has; None without one."""
    for name, total in sum_requests((spec.requests(), number) for spec, number in kinds).items():
        if (largest := nodes.largest_amount(name, levels(path))) < total:
            comparison = f"need {format_amount(total, name)} in all, the largest {noun(path[-1].topology)} has"
            return _finding(path, f"its {pluralize(path[-1].pods, 'pod')} {comparison} {format_number(largest, name)}")
    return None


def _finding(path: Sequence[Group], message: str) -> Finding:
    group = path[-1]
    subject = "" if len(path) == 1 else f"{group.kind} {group.name}: "
    ends = "they never run all at once" if group.gang is None else "it never fits"
    fewer = f"run fewer pods (replicas, parallelism) or leave out topology {group.topology}"
    return Finding(
        Level.FAULT,
        "too-large-for-a-domain",
        f"{subject}{message}: {ends}",
        fix=f"add nodes to one {noun(group.topology)}, or in a new JobSet {fewer}",
    )


def _pods_at_once(group: Group) -> int:
    """How many pods of the group have to be in its domain at once; of a PodGroup without a gang, all pods."""
    if not group.composite:
        return group.pods if group.gang is None else group.gang
    fewest = sorted(map(_pods_at_once, group.children))
    return sum(fewest[: group.gang]) if group.gang is not None else 0

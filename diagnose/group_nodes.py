"""Finds why a tree of groups never fits on the nodes: labels are missing, or domains are too small. Pure.

A group, such as a PodGroup, may have a topology key. All pods in the group then have to be in one domain, which is all
nodes with the same value of the label with this key, such as a rack.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from api.gangs import Group
from api.node_offers import format_amount, format_number
from diagnose.domains import domain_word
from diagnose.finding import Finding, Level, pluralize
from diagnose.needs import SeenSpec
from diagnose.nodes import Nodes, shape_of
from kube.model.requests import sum_requests


def why_tree_never_fits(root: Group, nodes: Nodes, spec_by_job: Mapping[str, SeenSpec]) -> list[Finding]:
    """Findings about why a tree never gets nodes; empty if unknown. `spec_by_job`: the spec of one waiting pod."""
    return (_label_findings(root, nodes) if len(nodes) else []) or _size_findings(root, nodes, spec_by_job)


def paths_from_root(group: Group, above: Sequence[Group] = ()) -> Iterator[list[Group]]:
    """The path from the root to each group of a tree."""
    yield [*above, group]
    for child in group.children:
        yield from paths_from_root(child, [*above, group])


def topology_keys(path: Sequence[Group]) -> list[str]:
    """The topology keys of the groups on a path, from the root."""
    return list(dict.fromkeys(group.topology_key for group in path if group.topology_key))


def _label_findings(root: Group, nodes: Nodes) -> list[Finding]:
    """Findings about topology labels that no node has; else about labels of one path that no node has together."""
    keys = dict.fromkeys(group.topology_key for group in root.walk() if group.topology_key)
    missing_labels = [(key, missing) for key in keys if (missing := nodes.missing_label(key)) is not None]
    if missing_labels:
        return [_label_finding(missing.message, missing.fix, key) for key, missing in missing_labels]
    for path_keys in dict.fromkeys(tuple(topology_keys(path)) for path in paths_from_root(root)):
        if not nodes.has_domains(path_keys):
            return [_label_finding(f"no node has the labels {' and '.join(path_keys)} at once", "", *path_keys)]
    return []


def _label_finding(message: str, first_fix: str, *keys: str) -> Finding:
    """The finding about labels that nodes lack. `first_fix`: the beginning of the fix, ending in a comma, or empty."""
    label = f"kubectl label node NODE {' '.join(f'{key}=VALUE' for key in keys)}"
    show = "kubectl get nodes --show-labels shows the labels of the nodes"
    fix = f"{first_fix}{'or ' if first_fix else ''}{label}; {show}"
    return Finding(Level.FAULT, "no-such-label", message, fix=fix)


def _size_findings(root: Group, nodes: Nodes, spec_by_job: Mapping[str, SeenSpec]) -> list[Finding]:
    """Findings about groups with more pods than the largest idle domain takes: one for each template of groups."""
    findings: dict[str, Finding] = {}
    for path in paths_from_root(root):
        group = path[-1]
        if not group.topology_key or group.template in findings:
            continue
        if finding := _pod_room_finding(path, nodes, spec_by_job):
            findings[group.template] = finding
    return list(findings.values())


def _pod_room_finding(path: Sequence[Group], nodes: Nodes, spec_by_job: Mapping[str, SeenSpec]) -> Finding | None:
    """The finding about a group with more pods than the largest idle domain takes; None if the pods fit."""
    group, keys = path[-1], topology_keys(path)
    at_once = _pods_at_once(group)
    pods_by_shape: dict[bytes, tuple[SeenSpec, int]] = {}
    for below in group.walk():
        for job, number in below.jobs:
            if (spec := spec_by_job.get(job)) is not None:
                shape = shape_of(spec)
                pods_by_shape[shape] = (spec, pods_by_shape.get(shape, (spec, 0))[1] + number)
    for spec, number in pods_by_shape.values():
        # Pods of other shapes may be among the pods that have to be placed at once.
        wanted, room = at_once - (group.pods - number), nodes.largest_domain_room(spec, tuple(keys))
        if room < wanted:
            domain_noun = domain_word(group.topology_key)
            holds = f"the largest {domain_noun} holds {room}" if room else f"no {domain_noun} holds any"
            kind_text = "" if number == group.pods else " of one kind"
            return _finding(path, f"{holds} of its {pluralize(number, 'pod')}{kind_text}")
    return _amount_finding(path, nodes, pods_by_shape.values()) if at_once == group.pods else None


def _amount_finding(path: Sequence[Group], nodes: Nodes, specs: Iterable[tuple[SeenSpec, int]]) -> Finding | None:
    """The finding about a resource of which the pods request more in all than any domain has; None without one.

    `specs`: each spec with the number of its pods.
    """
    for name, total in sum_requests((spec.requests(), number) for spec, number in specs).items():
        if (largest := nodes.largest_domain_amount(name, topology_keys(path))) < total:
            domain = f"the largest {domain_word(path[-1].topology_key)}"
            comparison = f"need {format_amount(total, name)} in all, {domain} has"
            return _finding(path, f"its {pluralize(path[-1].pods, 'pod')} {comparison} {format_number(largest, name)}")
    return None


def _finding(path: Sequence[Group], message: str) -> Finding:
    group = path[-1]
    subject = "" if len(path) == 1 else f"{group.kind} {group.name}: "
    ends = "they never run all at once" if group.gang_size is None else "it never fits"
    fewer = f"run fewer pods (replicas, parallelism) or leave out topology {group.topology_key}"
    return Finding(
        Level.FAULT,
        "too-large-for-a-domain",
        f"{subject}{message}: {ends}",
        fix=f"add nodes to one {domain_word(group.topology_key)}, or in a new JobSet {fewer}",
    )


def _pods_at_once(group: Group) -> int:
    """How many pods of the group have to be in its domain at once. Of a PodGroup without a gang, all pods have to."""
    if not group.is_composite:
        return group.pods if group.gang_size is None else group.gang_size
    smallest_first = sorted(map(_pods_at_once, group.children))
    return sum(smallest_first[: group.gang_size]) if group.gang_size is not None else 0

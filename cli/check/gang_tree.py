"""Draws the groups of a JobSet (spec.scheduling) as an indented tree of lines. Pure.

The end of a group's name is a hash of values that only a stored JobSet has. It is written as dots.
"""

from collections.abc import Iterator
from itertools import groupby

from msgspec.structs import replace

from api.gangs import Group, forest
from api.jobset import JobSet
from jobset_client.words import count_noun
from kube.model.field import join_names

_HASH_LENGTH = 10
_MAX_SHOWN = 3
"""At most this many equal groups, and Jobs of one group, are written. The number of the others is added."""


def tree_lines(js: JobSet) -> Iterator[str]:
    """The lines of the tree, without line ends."""
    trees = forest(js)
    if trees is None:
        yield f"JobSet {js.metadata.name}: no groups, pods are scheduled one by one"
        return
    groups = list(trees.groups())
    pods = sum(root.pods for root in trees.roots)
    jobs = sum(len(group.jobs) for group in groups)
    priority = f", priority class {trees.priority_class}" if trees.priority_class else ""
    numbers = ", ".join((count_noun(len(groups), "group"), count_noun(jobs, "Job"), count_noun(pods, "pod")))
    yield f"JobSet {js.metadata.name}: {numbers}{priority}"
    yield from _group_lines(trees.roots, "  ")


def _group_lines(groups: tuple[Group, ...], indent: str) -> Iterator[str]:
    """The lines of sibling groups and of the groups below them. Of consecutive equal groups, the first few."""
    for _, run in groupby(groups, _without_names):
        equal_groups = list(run)
        for group in equal_groups[:_MAX_SHOWN]:
            yield indent + _group_line(group)
            yield from _group_lines(group.children, indent + "  ")
        if len(equal_groups) > _MAX_SHOWN:
            yield f"{indent}and {len(equal_groups) - _MAX_SHOWN} more like it"


def _without_names(group: Group) -> Group:
    """The group without names of groups and Jobs, for comparisons."""
    jobs = tuple(("", pods) for _, pods in group.jobs)
    return replace(group, name="", jobs=jobs, children=tuple(map(_without_names, group.children)))


def _group_line(group: Group) -> str:
    members, noun = (len(group.children), "group") if group.is_composite else (group.pods, "pod")
    size = count_noun(members, noun)
    policy = f"basic, {size}" if group.gang_size is None else f"gang {group.gang_size} of {size}"
    claims = ", ".join(claim.name for claim in group.resource_claims)
    jobs = join_names([name for name, _ in group.jobs], _MAX_SHOWN)
    words = (policy, group.topology_key, group.disruption_mode, claims and f"claims {claims}", jobs)
    return "  ".join(filter(None, (f"{group.kind} {group.name[:-_HASH_LENGTH]}...", *words)))

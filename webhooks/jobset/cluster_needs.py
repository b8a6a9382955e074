"""PriorityClasses and node labels that the pods of a JobSet need: whether the cluster has them.

Without the class each pod is refused, without the label each pod waits, and no status says so. Both may be created
later: a warning. They are looked up on create only, with one small request for each name; answers are kept for a while.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from api.expiring import Expiring
from api.field import ErrorType, FieldError, Path, Rule
from api.keys import EXCLUSIVE_TOPOLOGY
from api.validation import dns1123_subdomain, qualified_name
from kube.client import Client
from kube.errors import NotFound
from kube.resources import NODES, PRIORITY_CLASSES
from webhooks.jobset.cluster_verdict import warning
from webhooks.jobset.rules.placement import by_affinity
from webhooks.jobset.subject import Entry, Subject

FOUND_FOR = 60.0
"""Seconds for which something that exists is not looked up again."""
MISSING_FOR = 5.0
"""The same for something that is missing: short, because a reader of the warning may create it and apply again."""
MOST = 1024
"""Names that are remembered, the latest."""

PRIORITY_CLASS = warning(
    "priority-class-missing",
    "no PriorityClass {name}: no pod runs",
    "create it",
    kind=ErrorType.NOT_FOUND,
)
TOPOLOGY = warning(
    "exclusive-topology-missing",
    "no node has the label {name}: pods wait for one",
    "label nodes",
    kind=ErrorType.NOT_FOUND,
)


@dataclass(frozen=True, slots=True)
class Need:
    """A name in a JobSet that has to exist in the cluster: the rule that it breaks otherwise, and its places."""

    rule: Rule
    name: str
    paths: tuple[Path, ...]


def needs_of(js: Subject) -> list[Need]:
    """What the pods of a JobSet need, each name once, without invalid names: these are refused elsewhere."""
    found: dict[tuple[Rule, str], dict[Path, None]] = {}
    for entry in js.entries:
        for rule, name, path in _of_entry(js, entry) if entry.rjob.replicas else ():
            found.setdefault((rule, name), {})[path] = None
    return [Need(rule, name, tuple(paths)) for (rule, name), paths in found.items()]


def _of_entry(js: Subject, entry: Entry) -> Iterator[tuple[Rule, str, Path]]:
    name = entry.rjob.pod_spec.get("priorityClassName")
    if isinstance(name, str) and name and not dns1123_subdomain(name):
        yield PRIORITY_CLASS, name, entry.pod_path.at("spec", "priorityClassName")
    topology = by_affinity(js, entry)
    if topology is not None and not qualified_name(topology):
        yield TOPOLOGY, topology, _level(js, entry).at("metadata", "annotations", EXCLUSIVE_TOPOLOGY)


def _level(js: Subject, entry: Entry) -> Path:
    """The level that sets the topology of a ReplicatedJob."""
    if EXCLUSIVE_TOPOLOGY in entry.template.metadata.annotations:
        return entry.path.at("template")
    return Path() if EXCLUSIVE_TOPOLOGY in js.js.metadata.annotations else entry.pod_path


class Needs:
    """Looks up needs and remembers the answers. One for a process."""

    def __init__(self, client: Client, budget: float) -> None:
        """`budget`: seconds for one call."""
        self._client = client
        self._budget = budget
        self._known: Expiring[tuple[str, str], bool] = Expiring(MOST)
        self._asking: dict[tuple[str, str], asyncio.Lock] = {}

    async def missing(self, need: Need) -> list[FieldError]:
        """A warning at each place if it is not there; raises when there is no answer."""
        if await self._is_there(need):
            return []
        return [need.rule.at(path, need.name, name=need.name) for path in need.paths]

    async def _is_there(self, need: Need) -> bool:
        key, now = (need.rule.id, need.name), asyncio.get_running_loop().time
        lock = self._asking.setdefault(key, asyncio.Lock())
        try:
            async with lock:  # many sets at once cost one request
                there = self._known.get(key, now())
                if there is None:
                    there = await self._look(need)
                    self._known.put(key, there, now() + (FOUND_FOR if there else MISSING_FOR))
        finally:
            if not lock.locked():
                self._asking.pop(key, None)
        return there

    async def _look(self, need: Need) -> bool:
        if need.rule is TOPOLOGY:
            page = await self._client.list(
                NODES, type=msgspec.Raw, label_selector=need.name, limit=1, timeout=self._budget
            )
            return bool(page.items)
        try:
            await self._client.get(PRIORITY_CLASSES, need.name, type=msgspec.Raw, timeout=self._budget)
        except NotFound:
            return False
        return True

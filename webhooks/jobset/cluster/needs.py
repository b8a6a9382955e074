"""Objects that pods of a new JobSet need by name and that do not exist. Warnings.

Without such an object pods are refused or wait, and no status shows this. The JobSet is not refused, since the object
may be created later. Each name is looked up with one small request, for its metadata only, so that no data of a Secret
is read. Without the right to look an object up there is no finding. Kinds in `LOOKED_UP_FOR_AUTHORS` are looked up only
if configured, or with the author's rights: only their users should be able to read them.

Remembered: whether an object exists, and whether nodes have a label, for 60 s, or for 5 s if not; 1,024 answers at
most. If an answer is wrong, a warning is out of date.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from api.batch import OwnedObject
from api.keys import EXCLUSIVE_TOPOLOGY, QUEUE_NAME
from kube.client import Client
from kube.errors import Forbidden, KubeError, NotFound
from kube.model.field import ErrorType, FieldError, Parts, Path, Rule
from kube.model.jsontree import dig
from kube.model.meta import JSON
from kube.model.suggest import MAX_CANDIDATES, nearest
from kube.model.validation import dns1123_subdomain, label_value, qualified_name
from kube.options import METADATA, METADATA_LIST
from kube.resources import (
    CONFIG_MAPS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    STORAGE_CLASSES,
    Resource,
)
from policy.recorded import policy_that_set
from webhooks.jobset.cluster.claims import Claim, claims_of
from webhooks.jobset.cluster.lookups import Lookups
from webhooks.jobset.cluster.references import references
from webhooks.jobset.cluster.verdict import warning
from webhooks.jobset.rules.scheduling import TOPOLOGY as GROUP_TOPOLOGY_PATH
from webhooks.jobset.rules.scheduling import levels
from webhooks.jobset.subject import Entry, Subject

SECONDS_IF_EXISTING = 60.0
"""Seconds for which the answer about an existing object is used."""
SECONDS_IF_MISSING = 5.0
"""Seconds for which the answer about a missing object is used. A reader of the warning may create it at once."""
MAX_ANSWERS = 1024
"""The most answers that are remembered."""
MAX_SELECTOR_LENGTH = 1024
"""The most characters of a node selector that is looked up, since it is a part of the URL."""


def _missing_rule(kind: str, message: str, fix: str = "create it") -> Rule:
    """The rule about a missing object that pods name or select by a label. It gives warnings."""
    return warning(f"{kind}-missing", message, fix, kind=ErrorType.NOT_FOUND)


PRIORITY_CLASS = _missing_rule("priority-class", "no PriorityClass {name}: no pod runs", "create it{or_meant}{whose}")
SERVICE_ACCOUNT = _missing_rule("service-account", "no ServiceAccount {name}: no pod is created")
RUNTIME_CLASS = _missing_rule("runtime-class", "no RuntimeClass {name}: no pod is created")
CLAIM = _missing_rule("claim", "no PersistentVolumeClaim {name}: pods wait for it")
STORAGE_CLASS = _missing_rule("storage-class", "no StorageClass {name}: the claim waits for a volume of it")
CONFIG_MAP = _missing_rule("config-map", "no ConfigMap {name}: pods wait for it")
SECRET = _missing_rule("secret", "no Secret {name}: pods wait for it")
DEVICE_CLAIM = _missing_rule("resource-claim", "no ResourceClaim {name}: pods wait for it")
DEVICE_CLAIM_TEMPLATE = _missing_rule(
    "resource-claim-template",
    "no ResourceClaimTemplate {name}: pods wait for it",
    "create it, or what makes it, such as a ComputeDomain",
)
TOPOLOGY = _missing_rule("exclusive-topology", "no node has the label {name}: pods wait for one", "label nodes")
NODE_NAME = _missing_rule(
    "node-name",
    "no node is called {name}: pods wait for it and are deleted",
    "remove nodeName: the scheduler chooses a node",
)
NODE_SELECTOR = _missing_rule(
    "node-selector",
    "no node has the labels {name}: pods wait for one",
    "correct them, label nodes, or have an autoscaler add some",
)
GROUP_TOPOLOGY = warning(
    "scheduling-topology-no-node",
    "no node has the label {name}: the group waits for one",
    "correct it, or label nodes",
    kind=ErrorType.NOT_FOUND,
)
_LABEL_RULES = {TOPOLOGY, NODE_SELECTOR, GROUP_TOPOLOGY}
RESOURCE_BY_RULE = {
    PRIORITY_CLASS: PRIORITY_CLASSES,
    SERVICE_ACCOUNT: SERVICE_ACCOUNTS,
    RUNTIME_CLASS: RUNTIME_CLASSES,
    CLAIM: PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASS: STORAGE_CLASSES,
    CONFIG_MAP: CONFIG_MAPS,
    SECRET: SECRETS,
    DEVICE_CLAIM: RESOURCE_CLAIMS,
    DEVICE_CLAIM_TEMPLATE: RESOURCE_CLAIM_TEMPLATES,
    NODE_NAME: NODES,
    **dict.fromkeys(_LABEL_RULES, NODES),
}
"""The resource that each rule looks up, by name or, for nodes, by labels."""
_POD_FIELD_BY_RULE = {PRIORITY_CLASS: "priorityClassName", RUNTIME_CLASS: "runtimeClassName", NODE_NAME: "nodeName"}
_RULE_BY_RESOURCE = {
    CONFIG_MAPS: CONFIG_MAP,
    SECRETS: SECRET,
    RESOURCE_CLAIMS: DEVICE_CLAIM,
    RESOURCE_CLAIM_TEMPLATES: DEVICE_CLAIM_TEMPLATE,
}
LOOKED_UP_FOR_AUTHORS = tuple(_RULE_BY_RESOURCE)
"""Kinds that are looked up with the rights of the JobSet's author, and with the manager's rights only if configured."""


@dataclass(frozen=True, slots=True)
class Need:
    """The name of an object, or the labels of a node, that has to exist. `rule` reports that it is missing.

    `paths`: where the JobSet has the name.
    """

    rule: Rule
    name: str
    paths: tuple[Path, ...]
    policy: str = ""
    """The policy that has set the name; empty if the author wrote it."""


def needs_of(subject: Subject, looked_up_kinds: Collection[Resource] = ()) -> list[Need]:
    """The needs of the pods of a JobSet, each name once. Invalid names are left out, since other rules refuse them.

    `looked_up_kinds`: which of ConfigMaps, Secrets and device claims are included, after all other needs.
    """
    paths_by_need: dict[tuple[Rule, str], dict[Path, None]] = {}
    entries = [entry for entry in subject.entries if entry.rjob.replicas]
    for list_needs in (partial(_entry_needs, subject), partial(_reference_needs, looked_up_kinds)):
        for rule, name, path in chain.from_iterable(map(list_needs, entries)):
            paths_by_need.setdefault((rule, name), {})[path] = None
    for level in levels(subject):
        if level.topology and not qualified_name(level.topology):
            topology_path = level.path.at(*GROUP_TOPOLOGY_PATH, 0, "key")
            paths_by_need.setdefault((GROUP_TOPOLOGY, level.topology), {})[topology_path] = None
    for claim in claims_of(subject.js):
        paths_by_need.pop((CLAIM, claim.name), None)  # the controller creates the claim
    policy = policy_that_set(subject.js.metadata.annotations, "priorityClassName")
    return [
        Need(rule, name, tuple(paths), policy if rule is PRIORITY_CLASS else "")
        for (rule, name), paths in paths_by_need.items()
    ]


def storage_class_needs(claims: Iterable[Claim]) -> list[Need]:
    """Needs for the StorageClasses of claims."""
    paths_by_name: dict[str, list[Path]] = {}
    for claim in claims:
        name = claim.spec.get("storageClassName")
        if isinstance(name, str) and name and not dns1123_subdomain(name):
            paths_by_name.setdefault(name, []).append(claim.path.at("spec", "storageClassName"))
    return [Need(STORAGE_CLASS, name, tuple(paths)) for name, paths in paths_by_name.items()]


def _entry_needs(subject: Subject, entry: Entry) -> Iterator[tuple[Rule, str, Path]]:
    yield from _valid_names(entry, _pod_needs(entry.rjob.pod_spec))
    topology = subject.topologies[entry.index]
    if topology is not None and not qualified_name(topology):
        yield TOPOLOGY, topology, _topology_holder(subject, entry).at("metadata", "annotations", EXCLUSIVE_TOPOLOGY)
    if QUEUE_NAME not in subject.js.metadata.labels and (selector := _node_selector(entry.rjob.pod_spec)):
        yield NODE_SELECTOR, selector, entry.pod_path.at("spec", "nodeSelector")


def _node_selector(pod: JSON) -> str:
    """The pod's node selector as a label selector; empty if the pod has none, or an invalid or too long one."""
    labels = pod.get("nodeSelector") or {}
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    # The length is checked first: it limits how many labels are checked.
    if len(selector) > MAX_SELECTOR_LENGTH or any(
        not isinstance(value, str) or qualified_name(key) or label_value(value) for key, value in labels.items()
    ):
        return ""
    return selector


def _reference_needs(looked_up_kinds: Collection[Resource], entry: Entry) -> Iterator[tuple[Rule, str, Path]]:
    pod_references = references(entry.rjob.pod_spec) if looked_up_kinds else ()
    return _valid_names(
        entry, ((_RULE_BY_RESOURCE[kind], name, path) for kind, name, path in pod_references if kind in looked_up_kinds)
    )


def _valid_names(entry: Entry, names: Iterable[tuple[Rule, Any, Parts]]) -> Iterator[tuple[Rule, str, Path]]:
    """The valid ones of these names, with their paths in the JobSet instead of the pod's spec."""
    path = entry.pod_path.at("spec")
    for rule, name, parts in names:
        if isinstance(name, str) and name and not dns1123_subdomain(name):
            yield rule, name, path.at(*parts)


def _pod_needs(pod: JSON) -> Iterator[tuple[Rule, Any, Parts]]:
    """Names in a pod's spec, valid or not, with their paths in the spec."""
    for rule, field in _POD_FIELD_BY_RULE.items():
        yield rule, pod.get(field), (field,)
    if pod.get("serviceAccountName") != "default":  # Kubernetes creates it with the namespace
        yield SERVICE_ACCOUNT, pod.get("serviceAccountName"), ("serviceAccountName",)
    for i, volume in enumerate(pod.get("volumes") or ()):
        yield (
            CLAIM,
            dig(volume, "persistentVolumeClaim", "claimName"),
            ("volumes", i, "persistentVolumeClaim", "claimName"),
        )
        class_path = ("ephemeral", "volumeClaimTemplate", "spec", "storageClassName")
        yield STORAGE_CLASS, dig(volume, *class_path), ("volumes", i, *class_path)


def _topology_holder(subject: Subject, entry: Entry) -> Path:
    """The path of the object whose annotation sets the topology: Job template, JobSet or pod template."""
    if EXCLUSIVE_TOPOLOGY in entry.template.metadata.annotations:
        return entry.path.at("template")
    return Path() if EXCLUSIVE_TOPOLOGY in subject.js.metadata.annotations else entry.pod_path


class _Existence(NamedTuple):
    """Whether an object exists, also True without the right to look it up. `similar_name`: an existing similar name."""

    exists: bool
    similar_name: str = ""


class Needs:
    """Looks up needs and remembers the answers. One instance for a process."""

    def __init__(self, timeout: float) -> None:
        """`timeout`: seconds for one request."""
        self._timeout = timeout
        self._answers: Lookups[tuple[str, str, str], _Existence] = Lookups(MAX_ANSWERS)
        self._class_lookups: Lookups[None, tuple[str, ...]] = Lookups(1)

    async def warnings(self, need: Need, namespace: str, client: Client) -> list[FieldError]:
        """A warning at each path of the name if the object does not exist. Raises without an answer."""
        resource = RESOURCE_BY_RULE[need.rule]
        scope = namespace if resource.namespaced else ""
        answer = await self._answers.get(
            (need.rule.id, scope, need.name),
            lambda: self._look_up(need, resource, scope, client),
            lambda answer: SECONDS_IF_EXISTING if answer.exists else SECONDS_IF_MISSING,
        )
        words = {
            "name": need.name,
            "or_meant": f", or did you mean {answer.similar_name}?" if answer.similar_name else "",
            "whose": f"; policy {need.policy} has set it" if need.policy else "",
        }
        return [] if answer.exists else [need.rule.at(path, need.name, **words) for path in need.paths]

    async def _look_up(self, need: Need, resource: Resource, namespace: str, client: Client) -> _Existence:
        try:
            if need.rule in _LABEL_RULES:
                page = await client.list(
                    NODES, type=msgspec.Raw, label_selector=need.name, limit=1, timeout=self._timeout
                )
                return _Existence(bool(page.items))
            scope = namespace or None
            await client.get(
                resource, need.name, namespace=scope, type=msgspec.Raw, accept=METADATA, timeout=self._timeout
            )
        except NotFound as error:
            if need.rule in {DEVICE_CLAIM, DEVICE_CLAIM_TEMPLATE} and not error.details.name:
                return _Existence(True)  # the API server does not serve this version of the kind
            return _Existence(False, await self._similar_class(need, client))
        except Forbidden:
            pass
        return _Existence(True)

    async def _similar_class(self, need: Need, client: Client) -> str:
        """A PriorityClass with a similar name; empty for other kinds, whose names may be secret."""
        if need.rule is not PRIORITY_CLASS:
            return ""
        try:
            names = await self._class_lookups.get(None, lambda: self._class_names(client), lambda _: SECONDS_IF_MISSING)
        except (KubeError, TimeoutError):
            return ""  # the warning then names no similar class
        return nearest(need.name, names)

    async def _class_names(self, client: Client) -> tuple[str, ...]:
        page = await client.list(
            PRIORITY_CLASSES, type=OwnedObject, accept=METADATA_LIST, limit=MAX_CANDIDATES, timeout=self._timeout
        )
        return tuple(item.metadata.name for item in page.items or ())

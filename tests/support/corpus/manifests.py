"""The corpus of manifests in tests/manifests/{good,bad}, each with the answer that is expected of admission.

Beside `NAME.yaml` may stand `NAME.expect.yaml`:

    gates: {AllAlpha: true}       # feature gates to judge with; default: the defaults
    before: {/spec/suspend: true} # the manifest is an update; the stored object differs in these places (null: absent)
    first_answer: api-server      # strict decoding answers before any webhook, naming the `unknown` fields
    unknown: [spec.suspended]     # unknown fields
    errors:                       # in the order of the answer; a good manifest has none
      - path: spec.suspend        # where: exactly cause.field
        reason: FieldValueInvalid # cause.reason
        contains: [text]          # fragments of cause.message
        layer: schema             # who would find it on a cluster without us: schema, webhook (default) or cluster
    warnings:                     # in any order
      - path: spec.suspend
        contains: [text]
        layer: webhook

Any other key is an error, so that a slip of the pen is no silent success.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kube.model.jsontree import set_in, without_nulls

JSON = dict[str, Any]
MANIFESTS = Path(__file__).parents[2] / "manifests"
SUFFIX = ".expect.yaml"


@dataclass(frozen=True)
class Finding:
    """One expected error (with a reason) or warning (without)."""

    path: str
    reason: str = ""
    contains: tuple[str, ...] = ()
    layer: str = "webhook"

    @property
    def by_engine(self) -> bool:
        """Whether the object alone shows it."""
        return self.layer != "cluster"


@dataclass(frozen=True)
class Case:
    """One manifest and its expected answer."""

    file: Path
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    gates: dict[str, bool] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    first_answer: str = "webhook"

    @property
    def id(self) -> str:
        return self.file.stem

    @property
    def manifest(self) -> JSON:
        """A fresh object."""
        loaded: JSON = yaml.load(self.file.read_bytes(), yaml.CSafeLoader)
        return loaded

    @property
    def old(self) -> JSON | None:
        """The object as it was before, when the manifest is an update."""
        old = self.manifest
        for pointer, value in self.before.items():
            keys = [int(key) if key.isdigit() else key for key in pointer.split("/")[1:]]
            old = set_in(old, keys, value)
        return without_nulls(old) if self.before else None

    @property
    def named(self) -> bool:
        return "name" in self.manifest["metadata"]

    @property
    def nulls(self) -> bool:
        """Whether it says null where it could say nothing."""
        return bool(without_nulls(self.manifest) != self.manifest)


def case_id(case: Case) -> str:
    return case.id


@cache
def cases(folder: str) -> tuple[Case, ...]:
    """All manifests of tests/manifests/`folder`, by name."""
    files = sorted((MANIFESTS / folder).glob("*.yaml"))
    return tuple(_case(file) for file in files if not file.name.endswith(SUFFIX))


def _case(file: Path) -> Case:
    beside = file.with_name(file.stem + SUFFIX)
    expected: JSON = yaml.load(beside.read_bytes(), yaml.CSafeLoader) if beside.exists() else {}
    for key in ("errors", "warnings"):
        expected[key] = _findings(expected.get(key, ()))
    return Case(file, **{**expected, "unknown": tuple(expected.get("unknown", ()))})


def _findings(items: Sequence[JSON]) -> tuple[Finding, ...]:
    return tuple(Finding(**{**item, "contains": tuple(item.get("contains", ()))}) for item in items)


def differences(expected: Iterable[Finding], found: Iterable[tuple[str, str, str]]) -> list[str]:
    """What is missing of the expected, and what is there beside it. `found`: (path, reason, text)."""
    left = list(found)
    missing = []
    for finding in expected:
        match = next((item for item in left if _is(finding, item)), None)
        if match is None:
            missing.append(f"missing {finding.path} {finding.reason} {list(finding.contains)}")
        else:
            left.remove(match)
    return missing + [f"beside it {path} {reason}: {text}" for path, reason, text in left]


def _is(finding: Finding, item: tuple[str, str, str]) -> bool:
    path, reason, text = item
    same = path == finding.path and reason == finding.reason
    return same and all(fragment in text for fragment in finding.contains)


_DEFAULTS: dict[str, Any] = {
    "spec.executionPolicy.executionPolicyOrder": "AnyOrder",
    "spec.executionPolicy.replicatedJobsStatus": "Succeeded",
    "spec.failurePolicy.restartStrategy": "Recreate",
    "spec.replicatedJobs[].groupName": "default",
    "spec.replicatedJobs[].replicas": 1,
    "spec.volumeClaimPolicies[].retentionPolicy.whenDeleted": "Delete",
    "spec.successPolicy": {"operator": "All"},
    "spec.startupPolicy": {"startupPolicyOrder": "AnyOrder"},
    "spec.network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
    "spec.network.enableDNSHostnames": True,
    "spec.network.publishNotReadyAddresses": True,
    "spec.successPolicy.operator": "All",
    "spec.failurePolicy.rules[].name": "failurePolicyRule{}",
    "spec.replicatedJobs[].template.spec.completionMode": "Indexed",
    "spec.replicatedJobs[].template.spec.template.spec.restartPolicy": "OnFailure",
    "spec.volumeClaimPolicies[].retentionPolicy": {"whenDeleted": "Delete"},
}
"""All defaults of docs/reference/defaulting.md, by place; `{}` is the index of the item."""
_POD_DEFAULTS = (("ports[].protocol", "TCP"), ("grpc.service", ""), ("fileKeyRef.optional", False))
"""Those of the schema inside pod templates, by the end of the place."""


def without_defaults(stored: Any, given: Any, place: str = "", index: int = 0) -> Any:
    """A stored value without the documented defaults of what the manifest leaves open (absent or null)."""
    if isinstance(stored, list) and isinstance(given, list):
        pairs = enumerate(zip(stored, given, strict=False))
        kept = [without_defaults(item, other, f"{place}[]", i) for i, (item, other) in pairs]
        return [*kept, *stored[len(kept) :]]
    if not isinstance(stored, dict):
        return stored
    given = given if isinstance(given, dict) else {}
    return {
        name: without_defaults(member, given.get(name), inner, index)
        for name, member in stored.items()
        if not _is_default(inner := f"{place}.{name}".lstrip("."), member, index) or given.get(name) is not None
    }


def _is_default(place: str, value: Any, index: int) -> bool:
    default = _DEFAULTS.get(place)
    if isinstance(default, str):
        default = default.format(index)
    return (default is not None and value == default) or any(
        place.endswith(end) and value == default for end, default in _POD_DEFAULTS
    )

"""The corpus of manifests in tests/manifests/{good,bad}, each with the answer that is expected of admission.

Beside `NAME.yaml` may stand `NAME.expect.yaml`:

    gates: {AllAlpha: true}       # feature gates to judge with; default: the defaults
    first_answer: api-server      # strict decoding answers before any webhook; its words are `unknown`
    unknown: [text]               # what that answer has to contain
    errors:                       # in the order of the answer; a good manifest has none
      - path: spec.suspend        # where: exactly cause.field
        reason: FieldValueInvalid # cause.reason
        contains: [text]          # fragments of cause.message
        layer: cluster            # only where the API server has to be asked: the engine alone does not find it
    warnings:                     # in any order
      - path: spec.suspend
        contains: [text]
        layer: cluster

`expected` fails on any other key, so that a slip of the pen is no silent success.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

JSON = dict[str, Any]
MANIFESTS = Path(__file__).parents[1] / "manifests"
SUFFIX = ".expect.yaml"


@dataclass(frozen=True)
class Finding:
    """One expected error (with a reason) or warning (without)."""

    path: str
    reason: str = ""
    contains: tuple[str, ...] = ()
    layer: str = "object"

    @property
    def by_engine(self) -> bool:
        """Whether the object alone tells."""
        return self.layer != "cluster"

    def says(self, text: str) -> bool:
        return all(fragment in text for fragment in self.contains)


@dataclass(frozen=True)
class Case:
    """One manifest and its expected answer. `manifest` is a fresh object on each access."""

    file: Path
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    gates: dict[str, bool] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    first_answer: str = "webhook"

    @property
    def id(self) -> str:
        return self.file.stem

    @property
    def manifest(self) -> JSON:
        loaded: JSON = yaml.load(self.file.read_bytes(), yaml.CSafeLoader)  # noqa: S506 - it is the safe loader, in C
        return loaded

    @property
    def named(self) -> bool:
        return "name" in self.manifest["metadata"]


def cases(folder: str) -> list[Case]:
    """All manifests of tests/manifests/`folder`, by name."""
    files = sorted((MANIFESTS / folder).glob("*.yaml"))
    return [_case(file) for file in files if not file.name.endswith(SUFFIX)]


def _case(file: Path) -> Case:
    beside = file.with_name(file.stem + SUFFIX)
    expected: JSON = yaml.safe_load(beside.read_bytes()) if beside.exists() else {}
    return Case(
        file,
        errors=_findings(expected.pop("errors", ())),
        warnings=_findings(expected.pop("warnings", ())),
        unknown=tuple(expected.pop("unknown", ())),
        **expected,
    )


def _findings(items: Sequence[JSON]) -> tuple[Finding, ...]:
    return tuple(Finding(**{**item, "contains": tuple(item.get("contains", ()))}) for item in items)

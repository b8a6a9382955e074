"""The page of fields: every field of the definition once, marked as the Go JobSet has it, with examples that are there."""

import re
from typing import NamedTuple

from api.features import GATES
from dev.reference.fields import SINCE_GO_0_13, TEMPLATES, page
from tests.support.corpus import go_crd
from tests.support.pages.files import ROOT

HEAD = re.compile(r"^## (\S+)$", re.MULTILINE)


class Row(NamedTuple):
    since: str
    type: str
    meaning: str
    gates: list[str]
    example: tuple[str, str]


EXAMPLE = re.compile(r" Example: \[`(.+)`\]\(\.\./\.\./(.+)\)\.$")


def rows() -> dict[str, Row]:
    """What the page says about each field, by its path."""
    found: dict[str, Row] = {}
    parts = HEAD.split(page())[1:]
    for path, text in zip(parts[::2], parts[1::2], strict=True):
        for line in text.strip().splitlines()[2:]:
            field, kind, meaning = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            name, _, since = field.partition(" ")
            key = f"{path}.{name.strip('`')}"
            assert key not in found
            value, file = EXAMPLE.search(meaning).groups() if "Example: " in meaning else ("", "")
            gates = [gate for gate in re.findall(r"\w+", meaning) if gate in GATES]
            found[key] = Row(since, kind, EXAMPLE.sub("", meaning), gates, (value, file))
    return found


def test_fields_are_marked_as_the_go_jobset_has_them():
    since = {path: row.since for path, row in rows().items()}
    known = go_crd.KNOWN - {"spec", "status"}
    assert {path for path, mark in since.items() if not mark} == known
    inside = tuple(f"{path}{end}" for path in SINCE_GO_0_13 for end in (".", "[]"))
    assert {path for path, mark in since.items() if mark == "0.13"} == {
        path for path in since if path in SINCE_GO_0_13 or path.startswith(inside)
    }
    assert SINCE_GO_0_13 == go_crd.LATER


def test_gates_and_defaults_are_those_of_the_code():
    found = rows()
    assert found["spec.replicatedJobs[].replicas"].type == "int32, default `1`"
    assert "InPlaceRestart" in found["spec.failurePolicy.restartStrategy"].gates
    assert found["spec.scheduling"].gates == ["JobSetWorkloadAwareSchedulingAPI"], "the text names it: not said twice"
    after = found["spec.failurePolicy.nodeFailure.afterSeconds"]
    assert (after.type, after.since, after.gates) == ("int32, required", "**+**", ["JobSetNodeFailure"])
    assert set(TEMPLATES) <= found.keys()


def test_every_field_has_a_meaning_and_examples_are_in_their_files():
    examples = 0
    for path, row in rows().items():
        assert row.meaning, path
        if row.example[1]:
            examples += 1
            assert path.rpartition(".")[2] in (ROOT / row.example[1]).read_text(encoding="utf-8")
    assert examples > 40

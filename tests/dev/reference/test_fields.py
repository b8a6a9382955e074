"""The page of fields: every field of the definition once, marked as the Go JobSet has it, with examples that are there."""

from __future__ import annotations

import re

from api.features import GATES
from dev.reference.fields import LATER, TEMPLATES, page
from tests.support import go_crd
from tests.support.pages import ROOT

HEAD = re.compile(r"^## (\S+)$", re.MULTILINE)


def rows() -> dict[str, list[str]]:
    """The cells of each field, by its path."""
    found: dict[str, list[str]] = {}
    parts = HEAD.split(page())[1:]
    for path, text in zip(parts[::2], parts[1::2], strict=True):
        for line in text.strip().splitlines()[2:]:
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            assert f"{path}.{cells[0]}" not in found
            found[f"{path}.{cells[0]}".replace("`", "")] = cells
    return found


def test_fields_are_marked_as_the_go_jobset_has_them():
    since = {path: cells[3] for path, cells in rows().items()}
    known = go_crd.KNOWN - {"spec", "status"}
    assert {path for path, mark in since.items() if not mark} == known
    inside = tuple(f"{path}{end}" for path in LATER for end in (".", "[]"))
    assert {path for path, mark in since.items() if mark == "0.13"} == {
        path for path in since if path in LATER or path.startswith(inside)
    }
    assert LATER == go_crd.LATER


def test_gates_and_defaults_are_those_of_the_code():
    cells = rows()
    assert {gate for row in cells.values() for gate in row[4].split(", ") if gate} <= GATES.keys()
    assert cells["spec.replicatedJobs[].replicas"][1:3] == ["int32", "`1`"]
    assert cells["spec.failurePolicy.restartStrategy"][4] == "InPlaceRestart"
    assert cells["spec.failurePolicy.nodeFailure.afterSeconds"][2:5] == ["required", "**+**", "JobSetNodeFailure"]
    assert set(TEMPLATES) <= cells.keys()


def test_every_field_has_a_meaning_and_examples_are_in_their_files():
    examples = 0
    for path, cells in rows().items():
        assert cells[6], path
        if found := re.fullmatch(r"\[`(.+)`\]\(\.\./\.\./(.+)\)", cells[5]):
            examples += 1
            assert path.rpartition(".")[2] in (ROOT / found[2]).read_text(encoding="utf-8")
    assert examples > 40

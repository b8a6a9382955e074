"""Operations against an independent JSON-patch implementation: they lead from the object as it came to the draft."""

from typing import Any

import jsonpatch
import pytest

from kube.model.field import Path
from webhooks.json_patch import PatchDraft


def changed(draft: PatchDraft, before: Any) -> Any:
    """The object of the draft; by the way it is checked that the operations lead there."""
    assert jsonpatch.apply_patch(before, draft.operations) == draft.object
    return draft.object


@pytest.mark.parametrize("present", ["x", None])
def test_a_place_in_a_list_is_replaced(present: Any):
    before = {"items": [present, "y"]}
    draft = PatchDraft(before)
    draft.set_value(Path(("items", 0)), "z")
    assert changed(draft, before) == {"items": ["z", "y"]}


def test_null_in_a_list_becomes_the_parent_of_what_is_set():
    before = {"items": [None, {}]}
    draft = PatchDraft(before)
    draft.set_default(Path(("items", 0, "name")), "a")
    assert changed(draft, before) == {"items": [{"name": "a"}, {}]}


@pytest.mark.parametrize(
    ("present", "after"), [("", {"a": {"b": "c"}}), (None, {"a": {"b": "c"}}), ("x", {"a": {"b": "x"}})]
)
def test_an_empty_text_is_absent_where_the_path_ends(present: Any, after: Any):
    before = {"a": {"b": present}}
    draft = PatchDraft(before)
    draft.set_default(Path(("a", "b")), "c", empty_is_absent=True)
    assert changed(draft, before) == after


def test_an_empty_text_is_no_parent():
    before = {"a": ""}
    draft = PatchDraft(before)
    draft.set_default(Path(("a", "b")), "c", empty_is_absent=True)
    assert changed(draft, before) == before

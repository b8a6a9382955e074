"""The reference page holds every rule, and rules are fit to be referred to."""

import re
from functools import cache
from pathlib import Path

import pytest

from authoring.rule_catalogue import all_rules, rules
from dev.reference import pages as reference
from kube.client import PAGE_SIZE
from kube.model.field import MAX_SHOWN_ERRORS
from webhooks.jobset.answers import MAX_WARNING_LENGTH, MAX_WARNINGS
from webhooks.jobset.cluster.dry_run import OWNERLESS_SECONDS
from webhooks.jobset.cluster.gangs import CACHE_SECONDS
from webhooks.jobset.cluster.memory import ANSWER_SECONDS as ANSWERED_SECONDS
from webhooks.jobset.cluster.needs import SECONDS_IF_EXISTING, SECONDS_IF_MISSING
from webhooks.jobset.cluster.nodes import CACHE_SECONDS as NODES_KEPT_FOR
from webhooks.jobset.cluster.nodes import MAX_PAGES
from webhooks.jobset.cluster.questions import MAX_ASKING_REVIEWS, MAX_REQUESTS, SLOT_TIMEOUT


@pytest.fixture(scope="module", autouse=True)
def _made_once():
    """A page is the same each time, and all of them take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "PAGES", {name: cache(make) for name, make in reference.PAGES.items()})
        yield


def test_ids_are_stable_words_and_nobody_shares_one():
    by_id: dict[str, set[int]] = {}
    for rule in all_rules():
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", rule.id), rule.id
        by_id.setdefault(rule.id, set()).add(id(rule))
    assert len(by_id) > 130
    assert [name for name, same in by_id.items() if len(same) > 1] == []


def test_every_rule_says_where_it_comes_from_and_what_it_is():
    for rule in all_rules():
        assert rule.source, rule.id
        assert rule.message or rule.fix, rule.id


def test_the_page_has_a_row_for_every_rule():
    page = reference.page()
    assert all(f"| `{rule.id}` |" in page for group in rules().values() for rule in group)
    assert not re.search(r"(?m)^\| .*\{\w+\}", page), "templates are shown for people"
    assert reference.main(["--check"]) == 0, "run `make generate`"


def test_the_page_of_errors_says_the_limits_that_are_in_force():
    said = " ".join(reference.page().split())
    for limit in (
        f"After {MAX_SHOWN_ERRORS} faults",
        f"at most {MAX_WARNINGS} warnings of at most {MAX_WARNING_LENGTH} characters",
        f"serves, at most once in {CACHE_SECONDS:g} s",
        f"at most once in {SECONDS_IF_EXISTING:g} s, or once in {SECONDS_IF_MISSING:g} s while it is missing",
        f"at most once in {NODES_KEPT_FOR:g} s, with at most {MAX_PAGES} requests for {PAGE_SIZE} nodes each",
        f"At most {MAX_REQUESTS} requests are sent about one JobSet",
        f"about {MAX_ASKING_REVIEWS} JobSets at once",
        f"has to wait for more than {SLOT_TIMEOUT:g} s",
        f"are not sent again for {ANSWERED_SECONDS:g} s",
        f"for {OWNERLESS_SECONDS:g} s all dry runs of new sets",
    ):
        assert limit in said


def test_check_names_each_outdated_page(tmp_path, capsys):
    (tmp_path / "reference").mkdir()
    assert reference.main(["--check"], tmp_path) == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        name.rpartition("/")[2] for name in reference.PAGES
    ]
    assert reference.main([], tmp_path) == 0
    written = capsys.readouterr().out.splitlines()
    assert [Path(line).name for line in written] == [Path(name).name for name in reference.PAGES]
    assert reference.main(["--check"], tmp_path) == 0
    (tmp_path / "errors.md").write_text("old")
    assert reference.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().out == "errors.md is not current; run `make generate` and commit the result.\n"

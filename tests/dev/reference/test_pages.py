"""The reference page holds every rule, and rules are fit to be referred to."""

import re

from dev.reference import pages as reference
from dev.reference.catalogue import all_rules, rules


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


def test_check_names_each_outdated_page(tmp_path, capsys):
    (tmp_path / "reference").mkdir()
    assert reference.main(["--check"], tmp_path) == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        f"docs/{name}" for name in reference.PAGES
    ]
    assert reference.main([], tmp_path) == 0
    assert reference.main(["--check"], tmp_path) == 0
    (tmp_path / "errors.md").write_text("old")
    assert reference.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().out == "docs/errors.md is out of date; run `make generate` and commit the result.\n"

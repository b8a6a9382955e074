"""Each stuck situation of the table: its cause in one line, a fix, and the list of them in docs/reference/stuck.md."""

import pytest

from cli.explain.listing import cause_line
from diagnose.reasons import explain
from diagnose.states import State, state_of
from tests.support.explain import stuck_jobs, stuck_kubelet, stuck_nodes, stuck_pods, stuck_restarts
from tests.support.explain.objects import explanation_of, walk
from tests.support.explain.stuck import TABLE, Stuck
from tests.support.pages.files import ROOT

assert stuck_jobs  # adds its situations to the table
assert stuck_kubelet
assert stuck_nodes
assert stuck_pods
assert stuck_restarts


@pytest.mark.parametrize("situation", TABLE, ids=lambda situation: situation.title)
def test_a_stuck_situation_has_its_cause_in_one_line_and_a_fix(situation: Stuck):
    given = situation.make()
    explanation = explain(given)
    assert cause_line(explanation) == situation.says
    # The page knows the JobSet's own object only: it says the same, or that the set waits.
    assert state_of(given.jobset, given.now) in {explanation.state, State.WAITING}
    _, body = explanation_of(given)
    fixes = [finding["remedy"] for finding in walk(body)]
    assert any(situation.fix in fix for fix in fixes), fixes


@pytest.mark.parametrize(("name", "kubelet"), [("stuck", False), ("stuck-pods", True)])
def test_the_pages_list_every_situation(name: str, kubelet: bool):
    page = (ROOT / f"docs/reference/{name}.md").read_text(encoding="utf-8")
    here = [situation for situation in TABLE if situation.in_words_of_kubelet is kubelet]
    rows = "\n".join(
        f"| {situation.title} | {situation.says.replace('|', '')} |"
        for situation in sorted(here, key=lambda situation: getattr(situation.make, "__module__", ""))
    )
    assert len(here) >= 40
    assert f"| Situation | Cause in one line |\n|---|---|\n{rows}\n" in page, rows

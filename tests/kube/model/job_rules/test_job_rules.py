"""The rules about Jobs against what a real API server said about the same Jobs: the same places, the same words."""

import pytest

from tests.support.corpus.job_answers import child, recorded, unexpected
from tests.support.corpus.job_mistakes import CASES, GOOD

ANSWERS = recorded()


@pytest.mark.parametrize("name", CASES)
def test_each_mistake_is_found_in_the_words_of_the_api_server(name: str):
    assert unexpected(child(CASES[name]), ANSWERS[name]) == ([], [])


def test_the_answers_are_of_these_cases_and_each_mistake_was_refused():
    assert ANSWERS.keys() == CASES.keys()
    assert (
        {name for name, causes in ANSWERS.items() if not causes}
        == {n for n in CASES if n.startswith("good")}
        >= GOOD.keys()
    )

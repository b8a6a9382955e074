"""Answers that are good for a time."""

from kube.model.expiring import Expiring


def test_a_value_is_there_until_its_time():
    answers: Expiring[str, int] = Expiring(2)
    answers.put("a", 1, until=10.0)
    assert answers.get("a", 9.9) == 1
    assert answers.get("a", 10.0) is None
    assert answers.get("b", 0.0) is None


def test_a_value_takes_the_place_of_the_earlier_one():
    answers: Expiring[str, int] = Expiring(2)
    answers.put("a", 1, until=10.0)
    answers.put("a", 2, until=20.0)
    assert answers.get("a", 15.0) == 2
    assert len(answers) == 1


def test_beyond_the_size_the_value_stored_first_is_dropped():
    answers: Expiring[str, int] = Expiring(2)
    for key in ("a", "b", "a", "c"):
        answers.put(key, 1, until=10.0)
    assert [answers.get(key, 0.0) for key in ("a", "b", "c")] == [1, None, 1]
    assert len(answers) == 2

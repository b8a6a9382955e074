"""Which rows have changed since a browser looked last."""

import json

from ui import board as boards
from ui.board import Board


class Shown:
    """A board and the rows that it is made from."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], dict] = {}
        self.board = Board("e")

    def put(self, *names: str, **row: object) -> None:
        for name in names:
            self.rows["ns", name] = {"name": name, **row}
            self.board.touch(("ns", name))
        self.publish()

    def drop(self, name: str) -> None:
        del self.rows["ns", name]
        self.board.touch(("ns", name))
        self.publish()

    def publish(self) -> None:
        self.board.publish(self.rows.get)

    def since(self, seen: str) -> tuple[bool, list[str], list[str]]:
        news = json.loads(self.board.changes_since(seen))
        return news["whole"], [row["name"] for row in news["rows"]], news["gone"]


def test_a_browser_that_was_here_gets_what_differs():
    shown = Shown()
    shown.put("a", "b", "c")
    seen = shown.board.cursor
    shown.put("b", state="Failed")
    shown.drop("c")
    assert shown.since(seen) == (False, ["b"], ["ns/c"])
    assert shown.since(shown.board.cursor) == (False, [], [])


def test_a_browser_of_another_process_or_from_the_future_gets_everything():
    shown = Shown()
    shown.put("a")
    for seen in ("other-2", "e-999", "e-x", f"e-{'9' * 5000}", "nonsense", "e--1"):
        assert shown.since(seen) == (True, ["a"], [])


def test_a_browser_that_has_missed_too_much_gets_everything(monkeypatch):
    monkeypatch.setattr(boards, "MAX_DELETED", 2)
    shown = Shown()
    shown.put("a", "b", "c", "d")
    seen = shown.board.cursor
    for name in "abc":
        shown.drop(name)
    assert shown.since(seen) == (True, ["d"], [])


def test_those_who_wait_are_told_only_of_changes():
    shown = Shown()
    waited = shown.board.changed
    shown.publish()
    assert not waited.is_set()
    shown.put("a")
    assert waited.is_set()
    assert not shown.board.changed.is_set()


def test_a_set_that_was_never_shown_is_not_reported_as_gone():
    shown = Shown()
    seen = shown.board.cursor
    shown.board.touch(("ns", "x"))
    shown.publish()
    assert shown.since(seen) == (False, [], [])

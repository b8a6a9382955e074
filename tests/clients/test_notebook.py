"""The table of the Python client, in a terminal and in a notebook."""

import io
import sys
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from jobset_client import Event, JobSet, NeverError, WaitTimeoutError
from jobset_client.notebook import MAX_ROWS, progress, progress_async, table
from tests.support.objects.jobsets import jobset, rjob

JSON = dict[str, Any]


def a_set(succeeded: int = 0, *, ended: str = "", uid: str = "u", **status: Any) -> JobSet:
    counts = [{"name": "workers", "ready": 1, "succeeded": succeeded, "failed": 0, "active": 1, "suspended": 0}]
    body = jobset(rjob(replicas=2), rjob("later"), namespace="team-a")
    body["metadata"]["uid"] = uid
    more = {"terminalState": ended} if ended else {}
    return JobSet.from_dict(body | {"status": {"replicatedJobsStatus": counts, **more, **status}})


def text(js: JobSet) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(table(js))
    return console.file.getvalue()


def test_the_table_has_the_state_and_a_row_for_each_replicated_job():
    lines = text(a_set(1, restarts=2, currentStage="workers (1/2)")).splitlines()
    assert lines[0].strip() == "JobSet team-a/train: waits, stage workers (1/2), restarts 2"
    rows = [[cell.strip() for cell in line.strip("│").split("│")][:7] for line in lines if line.startswith("│")]
    assert rows == [["workers", "2", "1", "1", "1", "0", "0"], ["later", "1", "0", "0", "0", "0", "0"]]


def test_what_looks_like_markup_is_shown_as_it_is():
    assert "stage [red]x[/red]" in text(a_set(currentStage="[red]x[/red]"))


def test_a_large_set_has_a_bounded_table():
    many = JobSet.from_dict(jobset(*(rjob(f"r{number}") for number in range(MAX_ROWS + 3))))
    assert "and 3 more ReplicatedJobs" in text(many)
    assert text(many).count("│ r") == MAX_ROWS


class Client:
    """Gives these events."""

    def __init__(self, *events: Event) -> None:
        self._events = events

    def get(self, name: str, **_: object) -> JobSet:
        return a_set()

    def watch(self, **_: object) -> Iterator[Event]:
        return iter(self._events)


class AsyncClient(Client):
    async def get(self, name: str, **_: object) -> JobSet:
        return a_set()

    async def watch(self, **_: object) -> AsyncIterator[Event]:
        for event in self._events:
            yield event


EVENTS = (Event("ADDED", a_set()), Event("MODIFIED", a_set(1)), Event("MODIFIED", a_set(2, ended="Completed")))


def test_progress_ends_with_the_set():
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    assert progress(Client(*EVENTS), "train", console=console).status.terminal_state == "Completed"
    assert "JobSet team-a/train: completed" in console.file.getvalue()


async def test_progress_without_blocking():
    console = Console(file=io.StringIO(), width=120)
    js = await progress_async(AsyncClient(*EVENTS), "train", console=console)
    assert js.status.terminal_state == "Completed"


@pytest.mark.parametrize("event", [Event("DELETED", a_set()), Event("ADDED", a_set(uid="another"))])
def test_progress_ends_when_the_set_is_deleted(event: Event):
    with pytest.raises(NeverError, match="JobSet team-a/train was deleted"):
        progress(Client(event), "train", console=Console(file=io.StringIO()))


def test_progress_has_a_timeout():
    with pytest.raises(WaitTimeoutError, match="not finished after 3 s"):
        progress(Client(*EVENTS[:2]), "train", timeout=3, console=Console(file=io.StringIO()))


def test_a_notebook_replaces_the_table_in_its_cell(monkeypatch: pytest.MonkeyPatch):
    shown: list[Any] = []

    class Handle:
        update = shown.append

    module = ModuleType("IPython.display")
    module.display = lambda made, display_id: shown.append(made) or Handle()
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    progress(Client(*EVENTS), "train", console=Console(file=io.StringIO(), force_jupyter=True))
    assert [hasattr(one, "_repr_mimebundle_") for one in shown] == [True] * 4
    assert "team-a/train: completed" in str(shown[-1].title)


def test_a_notebook_shows_a_jobset_short_and_escaped():
    shown = a_set(1, restarts=2)._repr_html_()
    assert "JobSet team-a/train: waits, restarts 2" in shown
    assert "<tr><td>workers</td><td>2</td><td>1</td><td>1</td><td>0</td></tr>" in shown
    assert len(shown) < 400
    many = JobSet.from_dict(jobset(*(rjob(f"r{number}") for number in range(MAX_ROWS + 3)), name="<b>"))
    assert "&lt;b&gt;" in many._repr_html_()
    assert many._repr_html_().endswith("<p>and 3 more</p>")

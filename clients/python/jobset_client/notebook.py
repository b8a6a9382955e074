"""Shows a table of a JobSet, which changes with the JobSet, in a notebook or a terminal.

It needs the package `rich`: `pip install 'jobset-client[notebook]'`.
"""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

try:
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text
except ImportError as error:
    raise ImportError("jobset_client.notebook needs the package rich: pip install 'jobset-client[notebook]'") from error

from jobset_client.errors import NeverError, WaitTimeoutError
from jobset_client.models import JobSet
from jobset_client.operations import Event
from jobset_client.states import has_reached, job_count, state_in_words, title
from jobset_client.words import count_noun

if TYPE_CHECKING:
    from jobset_client.aio import AsyncClient
    from jobset_client.sync import Client

MAX_ROWS = 50
"""Largest number of ReplicatedJobs that the table shows."""
_COUNT_NAMES = ("active", "ready", "succeeded", "failed", "suspended")


def table(jobset: JobSet) -> Table:
    """A table with the state of the JobSet and a row for each ReplicatedJob, which a notebook can show."""
    status = jobset.status
    title_parts = [
        f"{title(jobset)}: {state_in_words(jobset)}",
        status.current_stage and f"stage {status.current_stage}",
    ]
    title_parts += [f"restarts {status.restarts}"] if status.restarts else []
    result = Table(title=Text(", ".join(part for part in title_parts if part)), title_justify="left")
    for column in ("ReplicatedJob", "Jobs", *_COUNT_NAMES):
        result.add_column(column, justify="left" if column == "ReplicatedJob" else "right")
    result.add_column("done", min_width=12)
    counts = {entry.name: entry for entry in status.replicated_jobs_status}
    for rjob in jobset.spec.replicated_jobs[:MAX_ROWS]:
        total, entry = job_count(rjob.replicas), counts.get(rjob.name)
        numbers = [getattr(entry, count) or 0 if entry else 0 for count in _COUNT_NAMES]
        bar = ProgressBar(total=max(total, 1), completed=numbers[2] if total else 1, width=12)
        result.add_row(Text(rjob.name), str(total), *(str(number) for number in numbers), bar)
    if (hidden := len(jobset.spec.replicated_jobs) - MAX_ROWS) > 0:
        result.caption = f"and {count_noun(hidden, 'more ReplicatedJob')}"
    return result


def progress(
    client: "Client",
    name: str,
    *,
    namespace: str | None = None,
    timeout: float | None = None,
    console: Console | None = None,
) -> JobSet:
    """Show the table until the JobSet has completed or failed, and return its last state.

    Raises `NeverError` when it is deleted, `WaitTimeoutError` after `timeout` seconds.
    """
    first = client.get(name, namespace=namespace)
    with _Display(first, console) as display:
        for event in client.watch(name=name, namespace=namespace, timeout=timeout):
            if display.show_event(event):
                return event.jobset
    raise _timeout_error(first, timeout)


async def progress_async(
    client: "AsyncClient",
    name: str,
    *,
    namespace: str | None = None,
    timeout: float | None = None,
    console: Console | None = None,
) -> JobSet:
    """`progress` with an `AsyncClient`, so that other cells can run meanwhile."""
    first = await client.get(name, namespace=namespace)
    with _Display(first, console) as display:
        async for event in client.watch(name=name, namespace=namespace, timeout=timeout):
            if display.show_event(event):
                return event.jobset
    raise _timeout_error(first, timeout)


def _timeout_error(first: JobSet, seconds: float | None) -> WaitTimeoutError:
    return WaitTimeoutError(f"{title(first)}: not finished after {seconds:g} s")


class _Display:
    """Shows the table as output of a cell, which is replaced, or as lines of a terminal."""

    def __init__(self, first: JobSet, console: Console | None) -> None:
        self._first = first
        console = console or Console()
        self._live = None if console.is_jupyter else Live(table(first), console=console, auto_refresh=False)
        self._cell: Any = None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start(refresh=True)
        else:
            from IPython.display import display  # noqa: PLC0415 (a notebook has it)

            self._cell = display(table(self._first), display_id=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show_event(self, event: Event) -> bool:
        """Show the JobSet of the event. Returns whether the JobSet has ended. Raises `NeverError` if it was deleted."""
        js = event.jobset
        if event.type == "DELETED" or js.metadata.uid != self._first.metadata.uid:
            raise NeverError(f"{title(self._first)} was deleted")
        if self._live:
            self._live.update(table(js), refresh=True)
        else:
            self._cell.update(table(js))
        return has_reached(js, "finished")

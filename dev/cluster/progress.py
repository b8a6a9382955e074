"""Shows the progress of a long task, and how long it has taken.

A terminal gets a live line. Any other stream gets a plain line every 15 seconds. Everything goes to standard error, so
that results can be piped.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

LINE_PERIOD = 15.0

Report = Callable[[str], None]
"""A function that the task calls with its current state, such as "12 of 57 MiB"."""


def say(line: str) -> None:
    """Print one line for the user."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - this is the package's one place that prints


@contextmanager
def step(title: str) -> Iterator[Report]:
    """Show `title` while the block runs, and afterwards how long the block took."""
    start_time = time.monotonic()
    display = _live_display(title) if sys.stderr.isatty() else _line_display(title, sys.stderr, LINE_PERIOD)
    with display as report:
        yield report
    say(f"{title}: done after {elapsed_text(start_time)}")


def elapsed_text(start_time: float) -> str:
    """The time since `start_time` (`time.monotonic`), as "7 s" or "3 min 05 s"."""
    minutes, seconds = divmod(int(time.monotonic() - start_time), 60)
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"


@contextmanager
def _live_display(title: str) -> Iterator[Report]:
    from rich.console import Console  # noqa: PLC0415 - 0.2 s that only a terminal needs to pay
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    # The command line escapes control characters, which a live line needs.
    console = Console(file=getattr(sys.stderr, "inner", sys.stderr))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title)
        yield lambda state: progress.update(task, description=f"{title}: {state}")


@dataclass
class _LinePrinter:
    """Prints the latest state every `seconds`, until `ended` is set."""

    title: str
    stream: TextIO
    seconds: float
    state: str = "started"
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        start_time = time.monotonic()
        while not self.ended.wait(self.seconds):
            print(f"{self.title}: {self.state}, {elapsed_text(start_time)}", file=self.stream, flush=True)

    def report(self, state: str) -> None:
        self.state = state


@contextmanager
def _line_display(title: str, stream: TextIO, seconds: float) -> Iterator[Report]:
    print(f"{title} ...", file=stream, flush=True)
    line_printer = _LinePrinter(title, stream, seconds)
    thread = threading.Thread(target=line_printer.run, daemon=True)
    thread.start()
    try:
        yield line_printer.report
    finally:
        line_printer.ended.set()
        thread.join()

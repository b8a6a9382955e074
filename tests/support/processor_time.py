"""Processor time of tests: of the process that runs them, of those that it started, and of all that these started.

It says what a test costs the others of a run, which seconds on the clock do not: most of those are spent waiting, for a cluster
or for a processor.
"""

import os
import resource
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

PROPERTY = "processor_seconds"
"""Name of the property of each test in the report of a run (build/tests.xml)."""
MAX_FILES = 40
LOOK_EVERY = 1.0
"""Seconds between two looks at all descendants: with clusters among them each takes longer than most tests."""
TICKS = os.sysconf("SC_CLK_TCK")


def seconds(pid: int | None = None) -> float:
    """What this process and its descendants have used so far, or another one and its descendants.

    Where there is no /proc, descendants count once they are over.
    """
    pid = os.getpid() if pid is None else pid
    spent = _own(pid)
    with suppress(OSError):
        spent += sum(map(seconds, _children(pid)))
    return spent


def _own(pid: int) -> float:
    """Of a process and the children that it has waited for; 0 for one that is gone."""
    if pid == os.getpid():
        usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / TICKS
    return 0.0


def _children(pid: int) -> Iterator[int]:
    for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - three times for each test
        with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as children:  # noqa: PTH123 - same
            yield from map(int, children.read().split())


class ProcessorTime:
    """A plugin of pytest: notes what each test used, with its fixtures, and names the files that used most."""

    def __init__(self) -> None:
        self._own = 0.0
        self._others = 0.0
        self._looked = 0.0

    def pytest_collection_finish(self) -> None:
        self._spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            report.user_properties.append((PROPERTY, round(self._spent(), 3)))
        return report

    def _spent(self) -> float:
        """Since this was asked last. Descendants count for the first test that ends `LOOK_EVERY` after the last look."""
        before = self._own + self._others
        self._own = time.process_time()
        if time.monotonic() - self._looked >= LOOK_EVERY:
            self._others = seconds() - self._own
            self._looked = time.monotonic()
        return self._own + self._others - before

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """With `--durations`, as all targets of make."""
        if not terminalreporter.config.option.durations:
            return
        files: Counter[str] = Counter()
        for reports in terminalreporter.stats.values():
            for report in reports:
                used = dict(getattr(report, "user_properties", ())).get(PROPERTY, 0)
                files[getattr(report, "nodeid", "").partition("::")[0]] += used
        terminalreporter.section(f"processor time of tests: {sum(files.values()):.0f} s")
        for file, used in files.most_common(MAX_FILES):
            terminalreporter.write_line(f"{used:7.1f} s  {file}")

"""A benchmark that gets SIGTERM ends all that it has started."""

import argparse
import importlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.bench.ending import EXIT_CODE
from tests.support.cluster.requests import wait_for

ROOT = Path(__file__).parents[3]
START_NOTHING = {
    "dev.bench.load_generator",
    "dev.bench.plan",
    "dev.bench.runs",
    "dev.bench.admission.cpu",
}
HELPERS = {"dev.bench.floor", "dev.bench.admission.server"}
"""Processes that benchmarks start. They start none."""


def programs() -> list[str]:
    """The modules of dev/bench/ that can be run and start processes."""
    paths = (path for path in (ROOT / "dev/bench").rglob("*.py") if '\nif __name__ == "__main__":' in path.read_text())
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__") for path in paths}
    assert names > START_NOTHING | HELPERS
    return sorted(names - START_NOTHING - HELPERS)


@pytest.fixture
def not_handled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """SIGTERM fails the test, and a command line is not read before there was one."""

    def fail(*_: object) -> None:
        pytest.fail("main() does not handle SIGTERM")

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", lambda _: signal.raise_signal(signal.SIGTERM))
    before = signal.signal(signal.SIGTERM, fail)
    yield
    assert signal.signal(signal.SIGTERM, before) is fail, "main() leaves the handler as it was"


@pytest.mark.parametrize("name", programs())
def test_sigterm_raises_in_each_program_that_starts_others(name, not_handled):
    package = importlib.util.find_spec(name).submodule_search_locations
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"{name}.__main__" if package else name).main()
    assert ended.value.code == EXIT_CODE == 143


class Started:
    """A process, and all that descend from it, however they are orphaned: they inherit a variable."""

    def __init__(self, folder: Path, *command: str) -> None:
        self._mark = f"TMPDIR={folder}".encode()
        environment = {**os.environ, "TMPDIR": str(folder)}
        self.process = subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, env=environment)  # noqa: S603 - ours

    def commands(self) -> dict[int, str]:
        """Of all that run, by process."""
        found = {}
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdecimal() and self._mark in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found

    def runs(self, part: str) -> bool:
        assert self.process.poll() is None, "it has ended by itself"
        return any(part in command for command in self.commands().values())


@pytest.fixture
def admission_bench(tmp_path: Path) -> Iterator[Started]:
    """A benchmark whose admission server runs, beside the load."""
    started = Started(tmp_path, "dev.bench.admission", "--saturation")
    try:
        wait_for(lambda: started.runs("dev.bench.load_generator"), what="the load to begin")
        assert started.runs("dev.bench.admission.server")
        yield started
    finally:
        for pid in started.commands():
            os.kill(pid, signal.SIGKILL)
        started.process.wait()


def test_a_benchmark_that_gets_sigterm_ends_its_server_and_its_load(admission_bench):
    admission_bench.process.terminate()
    assert admission_bench.process.wait(60) == EXIT_CODE
    assert admission_bench.commands() == {}


def test_another_sigterm_does_not_keep_it_from_ending_them(admission_bench):
    over = threading.Event()

    def again() -> None:
        while not over.wait(0.01):
            admission_bench.process.terminate()

    thread = threading.Thread(target=again)
    thread.start()
    try:
        assert admission_bench.process.wait(60) in {EXIT_CODE, -signal.SIGTERM}, (
            "once all is ended, SIGTERM may end it at once"
        )
    finally:
        over.set()
        thread.join()
    assert admission_bench.commands() == {}

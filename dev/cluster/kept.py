"""Runs processes beside the control plane, and starts them again when they end, as a kubelet does with containers.

`Cluster.keep` stores command lines in the folder `kept` of the cluster, and the supervisor runs them. The pause before
a start doubles up to a limit, and begins again after a long run. Each end is a line in the log of the process. Like the
supervisor, this module must stay single-threaded and must not import slow modules.
"""

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dev.cluster.components import Component
from dev.cluster.spec import Layout

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
LONG_RUN_SECONDS = 60.0
"""Seconds of a run after which the next start waits only for the first pause again."""

KEPT_RANK = 9
"""The rank (`Component.rank`) of kept processes. They are clients of all components, so they stop first."""


@dataclass
class _KeptProcess:
    """A process, with its pause before the next start (seconds), and how its last run ended. Times are monotonic."""

    component: Component
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    next_start_at: float = 0.0
    pause: float = FIRST_PAUSE
    start_count: int = 0
    last_end: str = ""


class KeptProcesses:
    """The kept processes of one cluster. `spawn` starts a process, or raises OSError."""

    def __init__(
        self,
        layout: Layout,
        spawn: Callable[[Component, Layout], subprocess.Popen[bytes]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._layout = layout
        self._spawn = spawn
        self._clock = clock
        self._states: dict[str, _KeptProcess] = {}

    def start_due_processes(self) -> bool:
        """Start new processes, and ended processes whose pause is over. Returns whether anything has changed."""
        has_changed = False
        for path in sorted(self._layout.kept_folder.glob("*.json")):
            if path.stem not in self._states:
                argv = tuple(json.loads(path.read_text()))
                self._states[path.stem] = _KeptProcess(Component(path.stem, argv, KEPT_RANK, lambda: True))
        for state in self._states.values():
            if state.process is not None and (code := state.process.poll()) is not None:
                state.process = None
                if self._clock() - state.started_at > LONG_RUN_SECONDS:
                    state.pause = FIRST_PAUSE
                self._schedule_start(
                    state, f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
                )
                has_changed = True
            if state.process is None and self._clock() >= state.next_start_at:
                self._start(state)
                has_changed = True
        return has_changed

    def running(self) -> list[tuple[Component, subprocess.Popen[bytes]]]:
        """The running processes, which have to be stopped with the cluster."""
        return [(state.component, state.process) for state in self._states.values() if state.process is not None]

    def report(self) -> dict[str, dict[str, object]]:
        """A part of the status file: by name the process id, the number of starts, and how the last run ended."""
        return {
            name: {
                "process": state.process.pid if state.process else None,
                "starts": state.start_count,
                "ended": state.last_end,
            }
            for name, state in self._states.items()
        }

    def _start(self, state: _KeptProcess) -> None:
        try:
            state.process = self._spawn(state.component, self._layout)
        except OSError as error:
            self._schedule_start(state, f"cannot be started: {state.component.argv[0]}: {error.strerror}")
            return
        state.started_at = self._clock()
        state.start_count += 1

    def _schedule_start(self, state: _KeptProcess, reason: str) -> None:
        state.next_start_at = self._clock() + state.pause
        state.last_end = reason
        name, now = state.component.name, time.strftime("%Y-%m-%dT%H:%M:%S%z")
        with self._layout.log(name).open("a") as log:
            log.write(f"{now} local cluster: {name} {reason}; it is started again after {state.pause:g} s\n")
        state.pause = min(2 * state.pause, LONGEST_PAUSE)


def restart_lines(report: Mapping[str, Mapping[str, object]], layout: Layout) -> str:
    """A line for each process that has ended before: whether it runs now, how it ended, and the path of its log."""
    return "\n".join(
        f"{name} {'runs again' if each['process'] else f'is not running, and starts within {LONGEST_PAUSE:g} s'}"
        f" (starts: {each['starts']}): it {each['ended']}. Its log: {layout.log(name)}"
        for name, each in report.items()
        if each["ended"]
    )

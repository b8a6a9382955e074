"""Reads processor time and memory of a process and all its descendants from /proc (Linux)."""

import contextlib
import os
from collections import defaultdict
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")
PARENT, CPU = 1, slice(11, 15)
"""Positions in `_stat` of the parent's id, and of the times of the process and of its reaped children."""

RESET_PEAK = "5"
"""The value of clear_refs that resets the peak of resident memory."""


def cpu_seconds(pid: int) -> float:
    """User and system time of the process and of its descendants, including reaped descendants."""
    return sum(sum(map(int, _stat(member)[CPU])) for member in family(pid)) / TICKS


def memory_mib(pid: int, field: str = "VmRSS") -> float:
    """The current resident memory of the process and its descendants, or the sum of their peaks (VmHWM).

    Pages that processes share are counted for each of them.
    """
    return sum(_kib(PROC / str(member) / "status", field) for member in family(pid)) / 1024


def shared_once_mib(pid: int) -> float:
    """The current proportional memory, in which shared pages count once, as in the memory of a container."""
    return sum(_kib(PROC / str(member) / "smaps_rollup", "Pss") for member in family(pid)) / 1024


def reset_peak(pid: int) -> None:
    """Reset VmHWM to the current resident memory."""
    for member in family(pid):
        with contextlib.suppress(FileNotFoundError):
            (PROC / str(member) / "clear_refs").write_text(RESET_PEAK, encoding="ascii")


def family(pid: int) -> list[int]:
    """The process and its living descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for member in (int(folder.name) for folder in PROC.iterdir() if folder.name.isdecimal()):
        if stat := _stat(member):
            children[int(stat[PARENT])].append(member)
    pids = [pid]
    for member in pids:
        pids += children[member]
    return pids


def _stat(pid: int) -> list[str]:
    """The fields of stat after the second, which may contain spaces; empty for an ended process."""
    try:
        return (PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _kib(path: Path, field: str) -> int:
    """The value of a line in a file of a process; 0 if the process has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
    return 0

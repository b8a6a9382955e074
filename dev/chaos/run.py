"""Carries out one run, which consists of load and scheduled faults on a stage, a quiet time, and the checks."""

import json
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dev.bench import proc
from dev.chaos import beside, load
from dev.chaos.checks import calm
from dev.chaos.checks.admission import Window
from dev.chaos.checks.placement import snapshot_of
from dev.chaos.checks.strangers import Answer
from dev.chaos.client import JOBSETS, Admin
from dev.chaos.driver import Driver
from dev.chaos.events import Event
from dev.chaos.faults import AT_API_SERVER, GENTLE_KINDS, STRANGERS, WARM_UP, Fault, Kind, schedule
from dev.chaos.inject import inject
from dev.chaos.judge import Record, judge
from dev.chaos.stage import DROPPED_NAMESPACE, KEPT_NAMESPACE, STUCK_NAMESPACE, Stage, stage, wait_until_ready
from dev.cluster import audit
from dev.cluster.progress import say
from dev.local import LocalError
from kube.model.meta import JSON

JOBSETS_AT_ONCE = 8
"""Number of JobSets at once in the namespace that stays. The namespace that a fault deletes has three eighths as
many."""

TURN_SECONDS = 0.4
"""Seconds between two turns of the drivers."""

CHECK_PERIOD = 1.0
REPORT_PERIOD = 10.0
MAX_SHOWN = 20
"""Largest number of violations in the report for people."""

RESULTS_FILE, ANSWERS_FILE = "results.json", "probed.jsonl"

SHORT_LEASE = {"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"}
"""Short times, so that many leaders follow each other. A run in which no process ends has the usual lease."""

QUIET_SECONDS = 120.0
"""Seconds after the last fault within which all JobSets have to end."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run."""

    seed: int
    seconds: float
    kinds: Sequence[Kind]
    folder: Path
    sets: int = JOBSETS_AT_ONCE

    @property
    def width(self) -> dict[str, int]:
        """Number of JobSets at once in each namespace."""
        return {KEPT_NAMESPACE: self.sets, DROPPED_NAMESPACE: max(1, self.sets * 3 // 8)}


class Run:
    """Faults and load on one stage."""

    def __init__(self, stage: Stage, options: Options) -> None:
        self._stage = stage
        self._options = options
        self._start_time = time.monotonic()
        self._faults = schedule(options.seed, options.seconds, list(options.kinds))
        self._journal: list[JSON] = []
        """An entry for each fault that was begun, with its begin and end in seconds since the start."""
        self._threads: list[threading.Thread] = []
        self._admin = Admin(stage.cluster)
        self._drivers = [
            Driver(self._admin, namespace, load.scripts(options.seed + number), width)
            for number, (namespace, width) in enumerate(options.width.items())
        ]
        self._record = Record(
            events=(), stuck_namespace=STUCK_NAMESPACE, domains=self._domains(), excused_windows=stage.excused
        )
        self._sampled_at = self._reported_at = 0.0

    def play(self) -> JSON:
        """Carry out the run, and return its results with violations."""
        self._admin.ask("POST", JOBSETS.format(STUCK_NAMESPACE), load.stuck())
        start = time.time() - self._seconds()
        ports_by_replica = {replica.slot: [asdict(port) for port in replica.ports] for replica in self._stage.replicas}
        with beside.running("dev.chaos.prober", ports_by_replica, self._options.folder / ANSWERS_FILE):
            self._play_faults()
        return self._judge_run(start)

    def _play_faults(self) -> None:
        pending = list(self._faults)
        while (now := self._seconds()) < self._options.seconds:
            while pending and pending[0].at <= now:
                self._begin_fault(pending.pop(0))
            self._turn(with_new_jobsets=True)
        for thread in self._threads:
            while thread.is_alive():
                self._turn(with_new_jobsets=False)
        self._record.not_ready = wait_until_ready(self._stage)
        say(f"{self._seconds():6.1f} s  no more faults and no new sets: {self._alive} sets have yet to end")
        deadline = time.monotonic() + QUIET_SECONDS
        while self._alive and time.monotonic() < deadline:
            self._turn(with_new_jobsets=False)

    def _judge_run(self, start: float) -> JSON:
        """The results of the run, which began at `start` (seconds since 1970)."""
        require_fault_ends(self._journal)
        record = self._record
        for namespace in self._options.width:
            record.remaining_uids |= {
                item["metadata"]["uid"] for item in self._admin.list_objects(JOBSETS.format(namespace)) or ()
            }
        record.calm_windows = self._windows_without(start, set(Kind) - set(STRANGERS))
        record.undisturbed_windows = self._windows_without(start, AT_API_SERVER)
        neighbour_starts = (item["begin"] for item in self._journal if item["kind"] == Kind.NEIGHBOUR)
        record.windows_alone = [(start + WARM_UP, start + begin) for begin in neighbour_starts]
        record.answer_windows = {replica.slot: replica.answer_windows for replica in self._stage.replicas}
        record.logs = {log.stem: _lines(log) for replica in self._stage.replicas for log in replica.logs}
        record.answers = [Answer(*json.loads(line)) for line in _lines(self._options.folder / ANSWERS_FILE)]
        record.stops = [stop for replica in self._stage.replicas for stop in replica.stops]
        record.replica_names = {key: name for replica in self._stage.replicas for key, name in replica.lives.items()}
        record.events = all_events(self._stage.cluster.audit_log)
        result = judge(record)
        for violation in result["violations"]:
            violation["at"] = round(violation["at"] - start, 1) if violation["at"] else None
        return {
            "seed": self._options.seed,
            "seconds": self._options.seconds,
            "begun": start,
            "faults": self._journal,
            "replica_lives": len(record.replica_names),
            "hostile_connections": dict(self._stage.hostile),
            "neighbour_connections": dict(self._stage.neighbour),
            **result,
        }

    def _windows_without(self, start: float, kinds: Collection[Kind]) -> list[Window]:
        """The times in which no fault of these kinds has acted for a while."""
        faults = [(start + entry["begin"], start + entry["end"]) for entry in self._journal if entry["kind"] in kinds]
        return calm.calm_windows(start, time.time(), faults)

    def _begin_fault(self, fault: Fault) -> None:
        thread = threading.Thread(target=self._inject, args=(fault,), name=fault.kind, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _inject(self, fault: Fault) -> None:
        entry: JSON = {"kind": fault.kind, "target": fault.target, "strength": fault.strength, "begin": self._seconds()}
        self._journal.append(entry)
        title = " ".join(filter(None, [fault.kind, fault.target, f"{fault.strength:g}" if fault.strength else ""]))
        say(f"{entry['begin']:6.1f} s  {title}" + (f" for {fault.seconds:.0f} s" if fault.seconds else ""))
        inject(self._stage, fault)
        entry["end"] = self._seconds()

    def _turn(self, *, with_new_jobsets: bool) -> None:
        start = time.monotonic()
        for driver in self._drivers:
            driver.turn(with_new_jobsets=with_new_jobsets)
        if start - self._sampled_at >= CHECK_PERIOD:
            self._sampled_at = start
            self._sample()
        if start - self._reported_at >= REPORT_PERIOD:
            self._reported_at = start
            ended = sum(driver.ended_count for driver in self._drivers)
            ready = sum(replica.is_ready for replica in self._stage.replicas)
            say(f"{self._seconds():6.1f} s  {ended} sets have ended, {self._alive} run; {ready} replicas are ready")
        time.sleep(max(0.0, start + TURN_SECONDS - time.monotonic()))

    def _sample(self) -> None:
        pods = self._admin.list_objects("/api/v1/pods")
        if pods is not None:
            self._record.snapshots.append(snapshot_of(time.time(), pods))
        for replica in self._stage.replicas:
            if replica.pid is not None:
                sample = (time.monotonic() - replica.life_start, proc.memory_mib(replica.pid))
                self._record.memory.setdefault(replica.name, []).append(sample)

    def _domains(self) -> dict[str, str]:
        nodes = self._admin.list_objects("/api/v1/nodes") or ()
        return {node["metadata"]["name"]: node["metadata"]["labels"][load.TOPOLOGY] for node in nodes}

    @property
    def _alive(self) -> int:
        return sum(driver.alive_count for driver in self._drivers)

    def _seconds(self) -> float:
        return round(time.monotonic() - self._start_time, 1)


def all_events(log: Path) -> list[Event]:
    """All events of an audit log.

    Raises `LocalError` if the API server has rotated the log. Without its beginning the checks would be wrong.
    """
    if older_files := sorted(path.name for path in log.parent.glob(f"{log.stem}-*{log.suffix}")):
        raise LocalError(f"{log} has not all events: kube-apiserver has moved older ones to {', '.join(older_files)}")
    return list(audit.calls(log))


def require_fault_ends(journal: Sequence[JSON]) -> None:
    """Raise `LocalError` if a fault was interrupted. Its effect was then not tested."""
    if interrupted := [entry["kind"] for entry in journal if "end" not in entry]:
        raise LocalError(f"these faults broke off, see their errors above: {', '.join(interrupted)}")


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as lines:
        yield from lines


def run(options: Options) -> JSON:
    """Start a stage, carry out a run, and return its results. Raises `DevclusterError`."""
    lease = {} if set(options.kinds) <= set(GENTLE_KINDS) else SHORT_LEASE
    with stage(options.folder, options.seed, lease) as new_stage:
        say(f"the stage is ready: 3 replicas, seed {options.seed}, {options.seconds:g} s, state in {options.folder}")
        results = Run(new_stage, options).play()
        if results["violations"]:
            (options.folder / "audit.log").write_bytes(new_stage.cluster.audit_log.read_bytes())
        return results


def report(results: JSON) -> Iterator[str]:
    """Yield the lines of the report for people."""
    yield f"seed {results['seed']}, {results['seconds']:g} s, {len(results['faults'])} faults"
    for name, value in results.items():
        if name not in {"seed", "seconds", "begun", "faults", "violations"}:
            yield f"  {name.replace('_', ' ')}: {value}"
    yield f"  violations: {len(results['violations'])}"
    for violation in results["violations"][:MAX_SHOWN]:
        at = "" if violation["at"] is None else f" at {violation['at']} s"
        yield f"    {violation['rule']}: {violation['subject']}{at}: {violation['text']}"
    if (hidden := len(results["violations"]) - MAX_SHOWN) > 0:
        yield f"    and {hidden} more: {RESULTS_FILE} has them all"

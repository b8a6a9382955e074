"""One run: the stage, load and scheduled faults, then a quiet time, then the checks."""

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
from dev.chaos.checks.placement import look
from dev.chaos.checks.strangers import Answer
from dev.chaos.client import JOBSETS, Admin
from dev.chaos.driver import Driver
from dev.chaos.events import Event
from dev.chaos.faults import AT_API_SERVER, GENTLE_KINDS, STRANGERS, WARM_UP, Fault, Kind, schedule
from dev.chaos.inject import inject
from dev.chaos.judge import Record, judge
from dev.chaos.stage import DROPPED, KEPT, STUCK, Stage, not_ready, stage
from dev.cluster import audit
from dev.cluster.progress import say
from dev.local import LocalError
from kube.model.meta import JSON

SETS = 8
"""Sets at once in the namespace that stays, and three for eight of them in the one that is deleted."""

TURN = 0.4
"""Seconds between two turns of the drivers."""

CHECK_PERIOD = 1.0
SAY_EVERY = 10.0
MAX_SHOWN = 20
"""Violations in the report for people."""

RESULTS, PROBED = "results.json", "probed.jsonl"

SHORT_LEASE = {"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"}
"""So that many leaders follow each other. Where no process is to end, the lease is the usual one."""

QUIET_SECONDS = 120.0
"""Seconds after the last fault in which all sets have to end."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run."""

    seed: int
    seconds: float
    kinds: Sequence[Kind]
    folder: Path
    sets: int = SETS

    @property
    def width(self) -> dict[str, int]:
        """Sets at once in each namespace."""
        return {KEPT: self.sets, DROPPED: max(1, self.sets * 3 // 8)}


class Run:
    """Faults and load on one stage."""

    def __init__(self, on: Stage, options: Options) -> None:
        self._stage = on
        self._options = options
        self._start_time = time.monotonic()
        self._faults = schedule(options.seed, options.seconds, list(options.kinds))
        self._journal: list[JSON] = []
        self._threads: list[threading.Thread] = []
        self._admin = Admin(on.cluster)
        self._drivers = [
            Driver(self._admin, namespace, load.scripts(options.seed + number), width)
            for number, (namespace, width) in enumerate(options.width.items())
        ]
        self._record = Record(events=(), stuck=STUCK, domains=self._domains(), excused=on.excused)
        self._sampled_at = self._last_report = 0.0

    def play(self) -> JSON:
        """Run to the end and judge."""
        self._admin.ask("POST", JOBSETS.format(STUCK), load.stuck())
        wall = time.time() - self._seconds()
        probed = {replica.slot: [asdict(port) for port in replica.ports] for replica in self._stage.replicas}
        with beside.running("dev.chaos.prober", probed, self._options.folder / PROBED):
            self._act()
        return self._judge_run(wall)

    def _act(self) -> None:
        pending = list(self._faults)
        while (now := self._seconds()) < self._options.seconds:
            while pending and pending[0].at <= now:
                self._begin(pending.pop(0))
            self._turn(more=True)
        for thread in self._threads:
            while thread.is_alive():
                self._turn(more=False)
        self._record.not_ready = not_ready(self._stage)
        say(f"{self._seconds():6.1f} s  no more faults and no new sets: {self._alive} sets have yet to end")
        deadline = time.monotonic() + QUIET_SECONDS
        while self._alive and time.monotonic() < deadline:
            self._turn(more=False)

    def _judge_run(self, wall: float) -> JSON:
        require_ends(self._journal)
        record = self._record
        for namespace in self._options.width:
            record.left |= {one["metadata"]["uid"] for one in self._admin.list_objects(JOBSETS.format(namespace)) or ()}
        record.calm = self._without(wall, set(Kind) - set(STRANGERS))
        record.undisturbed = self._without(wall, AT_API_SERVER)
        came = (one["begin"] for one in self._journal if one["kind"] == Kind.NEIGHBOUR)
        record.alone = [(wall + WARM_UP, wall + begin) for begin in came]
        record.expected = {replica.slot: replica.answering for replica in self._stage.replicas}
        record.logs = {log.stem: _lines(log) for replica in self._stage.replicas for log in replica.logs}
        record.answers = [Answer(*json.loads(line)) for line in _lines(self._options.folder / PROBED)]
        record.stops = [stop for replica in self._stage.replicas for stop in replica.stops]
        record.names = {key: name for replica in self._stage.replicas for key, name in replica.lives.items()}
        record.events = whole(self._stage.cluster.audit_log)
        result = judge(record)
        for violation in result["violations"]:
            violation["at"] = round(violation["at"] - wall, 1) if violation["at"] else None
        return {
            "seed": self._options.seed,
            "seconds": self._options.seconds,
            "begun": wall,
            "faults": self._journal,
            "replica_lives": len(record.names),
            "hostile_connections": dict(self._stage.hostile),
            "neighbour_connections": dict(self._stage.neighbour),
            **result,
        }

    def _without(self, wall: float, kinds: Collection[Kind]) -> list[Window]:
        """When no fault of these kinds has acted for a while."""
        faults = [(wall + one["begin"], wall + one["end"]) for one in self._journal if one["kind"] in kinds]
        return calm.windows(wall, time.time(), faults)

    def _begin(self, fault: Fault) -> None:
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

    def _turn(self, *, more: bool) -> None:
        start = time.monotonic()
        for driver in self._drivers:
            driver.turn(more=more)
        if start - self._sampled_at >= CHECK_PERIOD:
            self._sampled_at = start
            self._sample()
        if start - self._last_report >= SAY_EVERY:
            self._last_report = start
            ended = sum(driver.ended for driver in self._drivers)
            ready = sum(replica.ready for replica in self._stage.replicas)
            say(f"{self._seconds():6.1f} s  {ended} sets have ended, {self._alive} run; {ready} replicas are ready")
        time.sleep(max(0.0, start + TURN - time.monotonic()))

    def _sample(self) -> None:
        pods = self._admin.list_objects("/api/v1/pods")
        if pods is not None:
            self._record.looks.append(look(time.time(), pods))
        for replica in self._stage.replicas:
            if replica.pid is not None:
                sample = (time.monotonic() - replica.began, proc.memory_mib(replica.pid))
                self._record.memory.setdefault(replica.name, []).append(sample)

    def _domains(self) -> dict[str, str]:
        nodes = self._admin.list_objects("/api/v1/nodes") or ()
        return {node["metadata"]["name"]: node["metadata"]["labels"][load.TOPOLOGY] for node in nodes}

    @property
    def _alive(self) -> int:
        return sum(driver.alive for driver in self._drivers)

    def _seconds(self) -> float:
        return round(time.monotonic() - self._start_time, 1)


def whole(log: Path) -> list[Event]:
    """All events of an audit log.

    Raises `LocalError` if its beginning was rotated away, without which the checks would be wrong.
    """
    if aside := sorted(path.name for path in log.parent.glob(f"{log.stem}-*{log.suffix}")):
        raise LocalError(f"{log} has not all events: kube-apiserver has moved older ones to {', '.join(aside)}")
    return list(audit.calls(log))


def require_ends(journal: Sequence[JSON]) -> None:
    """Raises `LocalError` if a fault was interrupted: its effect was not tested."""
    if broken := [one["kind"] for one in journal if "end" not in one]:
        raise LocalError(f"these faults broke off, see their errors above: {', '.join(broken)}")


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as lines:
        yield from lines


def run(options: Options) -> JSON:
    """Set the stage, play, and give the results. Raises `LocalError` or `DevclusterError` if there can be no run."""
    lease = {} if set(options.kinds) <= set(GENTLE_KINDS) else SHORT_LEASE
    with stage(options.folder, options.seed, lease) as on:
        say(f"the stage is ready: 3 replicas, seed {options.seed}, {options.seconds:g} s, state in {options.folder}")
        results = Run(on, options).play()
        if results["violations"]:
            (options.folder / "audit.log").write_bytes(on.cluster.audit_log.read_bytes())
        return results


def report(results: JSON) -> Iterator[str]:
    """Lines for people."""
    yield f"seed {results['seed']}, {results['seconds']:g} s, {len(results['faults'])} faults"
    for name, value in results.items():
        if name not in {"seed", "seconds", "begun", "faults", "violations"}:
            yield f"  {name.replace('_', ' ')}: {value}"
    yield f"  violations: {len(results['violations'])}"
    for violation in results["violations"][:MAX_SHOWN]:
        at = "" if violation["at"] is None else f" at {violation['at']} s"
        yield f"    {violation['rule']}: {violation['subject']}{at}: {violation['text']}"
    if (more := len(results["violations"]) - MAX_SHOWN) > 0:
        yield f"    and {more} more: {RESULTS} has them all"

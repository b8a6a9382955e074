"""One run of `jobset logs`: the logs of a JobSet's pods, one after the other, so that memory is bounded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from api.jobset import JobSet
from api.layout import layout_of
from app.terminal import lines_of_programs
from cli import session
from cli.messages import printable
from cli.operate.follow import Follower
from cli.operate.unread import Unread, reasons, unread_log
from jobset_client.errors import RefusedError
from jobset_client.log_order import LOGS_ARE_GONE, Log, LogPod, log_pod, logs, newest_attempt, pods_of_attempt, selector
from jobset_client.states import end_summary, title
from jobset_client.words import count_noun
from kube.client import PAGE
from kube.errors import ApiError, Forbidden, NotFound
from kube.model.jsontree import dig
from kube.model.suggest import did_you_mean
from kube.options import COMMAND_TIMEOUT
from kube.resources import JOBS, PODS

MAX_PODS = 20 * PAGE
"""Pods that are read, to find those that failed first."""
MAX_LOGS = 100
"""Logs that one run shows."""
MAX_BYTES = 4 << 20
"""Bytes of one log; the API server cuts it there."""
_NO_MESSAGE = "no termination message; with terminationMessagePolicy: FallbackToLogsOnError there are the last lines"
_RIGHT = "ask for the right to list pods and to get pods/log"


@dataclass(frozen=True, slots=True)
class Options(session.NamedJobSet):
    """Whose logs to show. Empty: all Jobs, all containers.

    `attempt` None: the latest that has pods. `tail`: last lines of each log; negative for all. `follow`: show new lines
    until the set has ended. `previous`: the parts of logs that the status keeps of failed attempts.
    """

    job: str = ""
    container: str = ""
    attempt: int | None = None
    tail: int = 100
    follow: bool = False
    previous: bool = False


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the logs to `out`, and the names of missing ones to `err`; returns the exit code."""

    async def work() -> int:
        name = session.jobset_name(options.name)
        if options.follow and options.attempt is not None:
            raise session.UsageError("-f follows the latest attempt and those after it: leave out --attempt")
        if options.follow and options.previous:
            raise session.UsageError("--previous prints what ended containers wrote, -f follows others: leave one out")
        if options.job:
            session.check_name(options.job)
        async with session.connect_to(options) as to:
            js = await session.get_jobset(to, name)
            try:
                if options.previous:
                    return _write_previous(js, options, out)
                if options.follow:
                    _refuse_unknown_job(js, options.job)
                    follower = Follower(to, js, container=options.container, tail=options.tail, out=out, err=err)
                    return await follower.run(options.job)
                pods = await _pods(to, js, options, err)
                if not pods:
                    _refuse_unknown_job(js, options.job)
                waits = await _waits(to, js, options) if not pods else ""
                those = _pods_of_attempt(pods, js, options, waits or LOGS_ARE_GONE)
                chosen = logs(those, options.container)
                if not chosen:
                    raise RefusedError(_no_container(js, options, logs(those, "")))
                return await _write(to, chosen, options.tail, out, err)
            except Forbidden as error:
                raise session.NoRightError(f"{error}; {_RIGHT} in namespace {to.namespace}") from error

    return session.run("logs", work, err)


def _write_previous(js: JobSet, options: Options, out: TextIO) -> int:
    """Write the ends of failed pods that the status keeps, oldest first."""
    _refuse_unknown_job(js, options.job)
    ends = [
        end
        for end in js.status.attempt_history
        if end.pod
        and options.attempt in {None, end.attempt}
        and options.job in {"", end.failed_job}
        and options.container in {"", end.container}
    ]
    if not ends:
        raise RefusedError(f"the status of {title(js)} names no failed pod of these: jobset logs shows what is there")
    write_line = lines_of_programs(out)
    for end in ends:
        node = f" on node {end.node}" if end.node else ""
        prefix = f"[{end.pod} {end.container}]"
        when = f" at {end.time}" if end.time else ""
        write_line(prefix, f"attempt {end.attempt} failed{node}{when}, exit code {end.exit_code}")
        for line in (end.termination_message or _NO_MESSAGE).split("\n"):
            write_line(prefix, line)
    return session.DONE


async def _pods(to: session.Session, js: JobSet, options: Options, err: TextIO) -> Sequence[LogPod]:
    """The pods of the set, or of one Job of it."""
    found: list[LogPod] = []
    async for body in to.client.pages(
        PODS, namespace=to.namespace, label_selector=selector(js, options.job), timeout=COMMAND_TIMEOUT
    ):
        if len(found) == MAX_PODS:
            err.write(f"jobset logs: only {MAX_PODS} pods were looked at: --job JOB looks at those of one Job\n")
            break
        found.append(log_pod(body["metadata"], body.get("status") or {}))
    return found


async def _waits(to: session.Session, js: JobSet, options: Options) -> str:
    """Why the requested Job has no pods yet; empty if it has had some, or if that is not known."""
    if not options.job or end_summary(js):
        return ""
    try:
        job = await to.client.get(JOBS, options.job, namespace=to.namespace, timeout=COMMAND_TIMEOUT)
    except NotFound:
        return "that Job has not started: it does not exist yet"
    except Forbidden:
        return ""
    return "that Job is suspended" if dig(job, "spec", "suspend") else ""


def _pods_of_attempt(pods: Sequence[LogPod], js: JobSet, options: Options, reason: str) -> Sequence[LogPod]:
    """The pods of the requested attempt. Raises `RefusedError` if there are none."""
    if options.attempt is not None and options.attempt > max(newest_attempt(pods), js.status.restarts):
        raise RefusedError(
            f"attempt {options.attempt} of {title(js)} has not begun: the latest is {js.status.restarts}"
        )
    more = f"; jobset explain {js.metadata.name} -n {js.metadata.namespace} says more"
    return pods_of_attempt(js, pods, options.job, options.attempt, reason, more)


def _refuse_unknown_job(js: JobSet, job: str) -> None:
    """Raise `RefusedError` if the set has no Job of this name; empty: any."""
    names = [position.name for jobs in layout_of(js).ranges for position in jobs.positions(js.metadata.name)]
    if job and job not in names:
        raise RefusedError(f"{title(js)} has no Job {job}; {did_you_mean(job, names)}")


def _no_container(js: JobSet, options: Options, readable: Sequence[Log]) -> str:
    if readable:
        guess = did_you_mean(options.container, sorted({log.container for log in readable}), intro="there are")
        return f"no container {options.container} in these pods; {guess}"
    problem = f"no container {options.container}" if options.container else "no container that has been created yet"
    return (
        f"{problem} in these pods; jobset explain {js.metadata.name} -n {js.metadata.namespace} says what they wait for"
    )


async def _write(to: session.Session, chosen: Sequence[Log], tail: int, out: TextIO, err: TextIO) -> int:
    """Read and write one log after the other."""
    has_written = False
    write_line = lines_of_programs(out)
    missing: list[Unread] = []
    for log in chosen[:MAX_LOGS]:
        if log.waits:
            err.write(printable(_without_log(log, to.namespace)) + "\n")
            continue
        try:
            text = await _read(to, log, tail)
        except Forbidden:
            raise
        except ApiError as error:
            missing.append(unread_log(log.prefix, error.message or error.reason))
            continue
        has_written = True
        parts = text.decode("utf-8", "replace").removesuffix("\n").split("\n") if text else []
        for part in parts:
            write_line(log.prefix, part)
        if len(text) >= MAX_BYTES:
            command = f"kubectl logs {log.pod} -c {log.container} -n {to.namespace}"
            err.write(f"{log.prefix} is cut after {MAX_BYTES >> 20} MiB: {command} shows all\n")
    err.writelines(f"{printable(line)}\n" for line in reasons(missing))
    if len(chosen) > MAX_LOGS:
        err.write(f"jobset logs: {count_noun(len(chosen) - MAX_LOGS, 'more log')}: --job JOB shows those of one Job\n")
    return session.DONE if has_written else session.FAILED


def _without_log(log: Log, namespace: str) -> str:
    """Why a waiting container whose last run is unknown has no log."""
    _, restarts = log.run
    if not restarts:
        return f"{log.prefix} has not started: {log.waits}"
    previous = f"kubectl logs -n {namespace} {log.pod} -c {log.container} --previous"
    return (
        f"{log.prefix} has ended {count_noun(restarts, 'time')} and waits to start again: {log.waits}; {previous} shows"
        " what it wrote, if its node has kept that"
    )


async def _read(to: session.Session, log: Log, tail: int) -> bytes:
    query = [("container", log.container), ("limitBytes", str(MAX_BYTES))]
    query += [("tailLines", str(tail))] if tail >= 0 else []
    return await to.client.raw(PODS.path(to.namespace, log.pod, "log"), tuple(query))

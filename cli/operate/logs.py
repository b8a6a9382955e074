"""Runs `jobset logs`: writes the logs of a JobSet's pods. It reads one log at a time, so that memory is bounded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from api.jobset import JobSet
from api.layout import layout_of
from cli import session
from cli.messages import printable
from cli.operate.follow import Follower
from cli.operate.unread import UnreadLog, unread_log, unread_log_messages
from cli.terminal import program_line_writer
from jobset_client.errors import RefusedError
from jobset_client.log_order import LOGS_ARE_GONE, Log, LogPod, log_pod, logs, newest_attempt, pods_of_attempt, selector
from jobset_client.states import end_summary, title
from jobset_client.words import count_noun
from kube.client import PAGE_SIZE
from kube.errors import ApiError, Forbidden, NotFound
from kube.model.jsontree import dig
from kube.model.suggest import did_you_mean
from kube.options import COMMAND_TIMEOUT
from kube.resources import JOBS, PODS

MAX_PODS = 20 * PAGE_SIZE
"""At most this many pods are read to find the pods that failed first."""
MAX_LOGS = 100
"""At most this many logs are written in one run."""
MAX_BYTES = 4 << 20
"""At most this many bytes of one log are read. The API server cuts the log there."""
_NO_MESSAGE = "no termination message; with terminationMessagePolicy: FallbackToLogsOnError there are the last lines"
_RIGHT_HINT = "ask for the right to list pods and to get pods/log"


@dataclass(frozen=True, slots=True)
class Options(session.NamedJobSet):
    """The logs to write. An empty `job` or `container` means all of them.

    - `attempt`: None for the latest attempt with pods.
    - `tail`: the number of last lines of each log; negative for all lines.
    - `follow`: write new lines until the JobSet has ended.
    - `previous`: write the ends of logs of failed attempts, which the status has.
    """

    job: str = ""
    container: str = ""
    attempt: int | None = None
    tail: int = 100
    follow: bool = False
    previous: bool = False


@session.command("logs")
async def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the logs to `out`, and reasons for missing logs to `err`. Returns the exit code."""
    name = session.jobset_name(options.name)
    if options.follow and options.attempt is not None:
        raise session.UsageError("-f follows the latest attempt and those after it: leave out --attempt")
    if options.follow and options.previous:
        raise session.UsageError("--previous prints what ended containers wrote, -f follows others: leave one out")
    if options.job:
        session.check_name(options.job)
    async with session.connect(options) as connection:
        js = await session.get_jobset(connection, name)
        try:
            if options.previous:
                return _write_previous(js, options, out)
            if options.follow:
                _refuse_unknown_job(js, options.job)
                follower = Follower(connection, js, container=options.container, tail=options.tail, out=out, err=err)
                return await follower.run(options.job)
            pods = await _read_pods(connection, js, options, err)
            absence_reason = LOGS_ARE_GONE
            if not pods:
                _refuse_unknown_job(js, options.job)
                absence_reason = await _wait_reason(connection, js, options.job) or LOGS_ARE_GONE
            attempt_pods = _pods_of_attempt(pods, js, options, absence_reason)
            chosen_logs = logs(attempt_pods, options.container)
            if not chosen_logs:
                raise RefusedError(_no_container_message(js, options.container, logs(attempt_pods, "")))
            return await _write_logs(connection, chosen_logs, options.tail, out, err)
        except Forbidden as error:
            raise session.NoRightError(f"{error}; {_RIGHT_HINT} in namespace {connection.namespace}") from error


def _write_previous(js: JobSet, options: Options, out: TextIO) -> int:
    """Write the termination messages in the status, the oldest first. Raises `RefusedError` if there are none."""
    _refuse_unknown_job(js, options.job)
    failed_attempts = [
        attempt
        for attempt in js.status.attempt_history
        if attempt.pod
        and options.attempt in {None, attempt.attempt}
        and options.job in {"", attempt.failed_job}
        and options.container in {"", attempt.container}
    ]
    if not failed_attempts:
        raise RefusedError(f"the status of {title(js)} names no failed pod of these: jobset logs shows what is there")
    write_line = program_line_writer(out)
    for attempt in failed_attempts:
        node = f" on node {attempt.node}" if attempt.node else ""
        prefix = f"[{attempt.pod} {attempt.container}]"
        when = f" at {attempt.time}" if attempt.time else ""
        write_line(prefix, f"attempt {attempt.attempt} failed{node}{when}, exit code {attempt.exit_code}")
        for line in (attempt.termination_message or _NO_MESSAGE).split("\n"):
            write_line(prefix, line)
    return session.DONE


async def _read_pods(connection: session.Session, js: JobSet, options: Options, err: TextIO) -> Sequence[LogPod]:
    """The pods of the JobSet, or of one of its Jobs."""
    pods: list[LogPod] = []
    async for body in connection.client.pages(
        PODS, namespace=connection.namespace, label_selector=selector(js, options.job), timeout=COMMAND_TIMEOUT
    ):
        if len(pods) == MAX_PODS:
            err.write(f"jobset logs: only {MAX_PODS} pods were looked at: --job JOB looks at those of one Job\n")
            break
        pods.append(log_pod(body["metadata"], body.get("status") or {}))
    return pods


async def _wait_reason(connection: session.Session, js: JobSet, job_name: str) -> str:
    """Why the Job has no pods yet; empty if no Job is named, if it has had pods, or if this is not known."""
    if not job_name or end_summary(js):
        return ""
    try:
        job = await connection.client.get(JOBS, job_name, namespace=connection.namespace, timeout=COMMAND_TIMEOUT)
    except NotFound:
        return "that Job has not started: it does not exist yet"
    except Forbidden:
        return ""
    return "that Job is suspended" if dig(job, "spec", "suspend") else ""


def _pods_of_attempt(pods: Sequence[LogPod], js: JobSet, options: Options, absence_reason: str) -> Sequence[LogPod]:
    """The pods of the requested attempt. Raises `RefusedError` with `absence_reason` if there are none."""
    if options.attempt is not None and options.attempt > max(newest_attempt(pods), js.status.restarts):
        raise RefusedError(
            f"attempt {options.attempt} of {title(js)} has not begun: the latest is {js.status.restarts}"
        )
    hint = f"; jobset explain {js.metadata.name} -n {js.metadata.namespace} says more"
    return pods_of_attempt(js, pods, options.job, options.attempt, absence_reason, hint)


def _refuse_unknown_job(js: JobSet, job: str) -> None:
    """Raise `RefusedError` if `job` is not empty and the JobSet has no Job of this name."""
    names = [position.name for jobs in layout_of(js).ranges for position in jobs.positions(js.metadata.name)]
    if job and job not in names:
        raise RefusedError(f"{title(js)} has no Job {job}; {did_you_mean(job, names)}")


def _no_container_message(js: JobSet, container: str, all_logs: Sequence[Log]) -> str:
    """The message that the pods have no log of this container. `all_logs`: the logs of all their containers."""
    if all_logs:
        guess = did_you_mean(container, sorted({log.container for log in all_logs}), intro="there are")
        return f"no container {container} in these pods; {guess}"
    problem = f"no container {container}" if container else "no container that has been created yet"
    command = f"jobset explain {js.metadata.name} -n {js.metadata.namespace}"
    return f"{problem} in these pods; {command} says what they wait for"


async def _write_logs(
    connection: session.Session, chosen_logs: Sequence[Log], tail: int, out: TextIO, err: TextIO
) -> int:
    """Read and write the logs, one after the other. Returns the exit code."""
    has_written = False
    write_line = program_line_writer(out)
    unread_logs: list[UnreadLog] = []
    for log in chosen_logs[:MAX_LOGS]:
        if log.wait_reason:
            err.write(printable(_waiting_message(log, connection.namespace)) + "\n")
            continue
        query = [("container", log.container), ("limitBytes", str(MAX_BYTES))]
        query += [("tailLines", str(tail))] if tail >= 0 else []
        try:
            content = await connection.client.raw(PODS.path(connection.namespace, log.pod, "log"), tuple(query))
        except Forbidden:
            raise
        except ApiError as error:
            unread_logs.append(unread_log(log.prefix, error.message or error.reason))
            continue
        has_written = True
        lines = content.decode("utf-8", "replace").removesuffix("\n").split("\n") if content else []
        for line in lines:
            write_line(log.prefix, line)
        if len(content) >= MAX_BYTES:
            command = f"kubectl logs {log.pod} -c {log.container} -n {connection.namespace}"
            err.write(f"{log.prefix} is cut after {MAX_BYTES >> 20} MiB: {command} shows all\n")
    err.writelines(f"{printable(line)}\n" for line in unread_log_messages(unread_logs))
    if len(chosen_logs) > MAX_LOGS:
        err.write(
            f"jobset logs: {count_noun(len(chosen_logs) - MAX_LOGS, 'more log')}: --job JOB shows those of one Job\n"
        )
    return session.DONE if has_written else session.FAILED


def _waiting_message(log: Log, namespace: str) -> str:
    """The message about a container that waits to start, for the first time or again."""
    _, restarts = log.run
    if not restarts:
        return f"{log.prefix} has not started: {log.wait_reason}"
    previous = f"kubectl logs -n {namespace} {log.pod} -c {log.container} --previous"
    return (
        f"{log.prefix} has ended {count_noun(restarts, 'time')} and waits to start again: {log.wait_reason}; {previous}"
        " shows what it wrote, if its node has kept that"
    )

"""The flags of the commands that read or change one JobSet in a cluster."""

import argparse
from typing import Any, Final

from cli.commands import Commands, add_cluster_flags, add_command, run_module, whole_number
from cli.completion import complete_with_names
from jobset_client.states import STATES

MAX_DIGITS: Final = 10
"""The maximum number of digits of a number of Jobs."""

WAIT_EXAMPLES = """examples:
  %(prog)s train --for=completed                    without end
  %(prog)s train --for=finished --timeout=2h        completed or failed: the answer says which
  %(prog)s train --for=ready --timeout=10m          all Jobs are ready or have succeeded
  jobset suspend train && %(prog)s train --for=suspended --timeout=1m

It reads the JobSet and then watches it. `suspended`: every Job is suspended; the last pods may still be ending. Where a
JobSet waits too long, `jobset explain` says why.

exit codes:
  0    the JobSet is in that state
  1    it never will be: it has ended otherwise or was deleted, or there is no JobSet of that name
  2    not known: wrong usage, a cluster that does not answer, no right to get, list and watch JobSets
  124  not in that state before the timeout"""

LOGS_EXAMPLES = """examples:
  %(prog)s train                          the last 100 lines of each container; who failed first comes first
  %(prog)s train --tail=-1 > train.log    all lines
  %(prog)s train --job train-workers-3 -c main
  %(prog)s train -f                       what is written from now on, too, of new attempts as well
  %(prog)s train --attempt=1              of one attempt; its pods are there only until they have been deleted
  %(prog)s train --previous               how the last attempts failed: termination messages, which outlive the pods

Each line begins with [JOB/INDEX CONTAINER]. Containers that have failed come first, in the order of their failures, the
others by Job and index. Of init containers those are shown that have not succeeded. One run shows at most 100 logs of
at most 4 MiB each, one after the other, and says what it leaves out. With -f it follows at most 100 logs at once, in
the order in which lines come, and ends when the JobSet has ended or was deleted.

exit codes:
  0  at least one log is shown; standard error names those that are not there
  1  none: no JobSet or container of that name, pods that have not started, pods that are gone
  2  not known: wrong usage, a cluster that does not answer, no right to get JobSets, list pods and get pods/log;
     -f needs the right to watch JobSets and pods, too"""

CHANGE_EXAMPLES = """examples:
  %(prog)s train
  %(prog)s jobset/train -n team-a

{effect}
To end all pods and start them again: jobset restart.

exit codes:
  0  done, or it was so already
  1  not possible: no JobSet of that name, one that has ended{more_reasons}
  2  not done: wrong usage, a cluster that does not answer or refuses, no right to get and patch JobSets"""

RESTART_EXAMPLES = """examples:
  %(prog)s train
  %(prog)s train --timeout=10m && jobset wait train --for=ready

It suspends the JobSet, waits until its Jobs are suspended, and resumes it: a new attempt (status.executionAttempts), in
the order of start. It is no restart in the sense of the failure policy: status.restarts and maxRestarts do not count
it, and Jobs that have succeeded do not run again.

exit codes:
  0    it runs again
  1    not possible: no JobSet of that name, one that has ended or is suspended, or one of a queue
  2    not done: wrong usage, a cluster that does not answer or refuses, no right to get, list, watch and patch JobSets
  124  not all Jobs were suspended in time. The JobSet stays suspended: jobset resume"""

SCALE_EXAMPLES = """examples:
  %(prog)s train workers=6
  %(prog)s jobset/train workers=6 eval=2 -n team-a

It changes replicas of the ReplicatedJobs that are named: Jobs of new indexes are created, and those of the highest
indexes are deleted. Pods that run keep the numbers from their creation, unless the ReplicatedJob has elastic: then the
set restarts, or goes on as it is until there is room for more (docs/concepts/elastic.md). The manager needs the feature
gate ElasticJobSet; without it the webhook refuses the change.

exit codes:
  0  done, or it was so already
  1  not possible: no JobSet or ReplicatedJob of that name, or a JobSet that has ended
  2  not done: wrong usage, a cluster that does not answer or refuses, no right to get and patch JobSets"""

SUSPEND_EFFECT = "Sets spec.suspend: the Jobs stay and their pods are deleted."
RESUME_EFFECT = "Clears spec.suspend: Jobs that have not succeeded get pods again, in the order of start."


def add_logs(commands: Commands) -> None:
    """Register the command `logs`."""
    parser = _command(commands, "logs", LOGS_EXAMPLES)
    add = parser.add_argument
    add("--job", default="", metavar="JOB", help="only pods of this Job, such as train-workers-0")
    add("-c", "--container", default="", metavar="NAME", help="only containers of this name")
    add("--attempt", type=_attempt, metavar="N", help="restarts before this attempt; default: the latest with pods")
    text = "last lines of each container; -1 for all (default 100)"
    add("--tail", type=whole_number, default=100, metavar="N", help=text)
    add("-p", "--previous", action="store_true", help="the last lines of workers that failed, from the status")
    add("-f", "--follow", action="store_true", help="go on with what is written, until the JobSet has ended")
    parser.set_defaults(handler=run_module("cli.operate.logs"))


def add_wait(commands: Commands) -> None:
    """Register the command `wait`."""
    parser = _command(commands, "wait", WAIT_EXAMPLES)
    parser.add_argument("--for", dest="state", required=True, choices=STATES, help="the state")
    parser.add_argument(
        "--timeout", type=_seconds, default=0.0, metavar="DURATION", help="such as 90s, 1h30m; default: without end"
    )
    parser.set_defaults(handler=run_module("cli.operate.wait"))


def add_restart(commands: Commands) -> None:
    """Register the command `restart`."""
    parser = _command(commands, "restart", RESTART_EXAMPLES)
    parser.add_argument(
        "--timeout", type=_seconds, default=300.0, metavar="DURATION", help="for its Jobs to be suspended; default: 5m"
    )
    parser.set_defaults(handler=run_module("cli.operate.restart"))


def add_scale(commands: Commands) -> None:
    """Register the command `scale`."""
    parser = _command(commands, "scale", SCALE_EXAMPLES)
    text = "a ReplicatedJob and its number of Jobs, such as workers=6"
    parser.add_argument("replicas", nargs="+", action=_JobCounts, type=_job_count, metavar="NAME=JOBS", help=text)
    parser.set_defaults(handler=run_module("cli.operate.scale"))


def add_suspend(commands: Commands) -> None:
    """Register the command `suspend`."""
    examples = CHANGE_EXAMPLES.format(effect=SUSPEND_EFFECT, more_reasons="")
    parser = _command(commands, "suspend", examples)
    parser.set_defaults(handler=run_module("cli.operate.change"), suspend=True)


def add_resume(commands: Commands) -> None:
    """Register the command `resume`."""
    examples = CHANGE_EXAMPLES.format(effect=RESUME_EFFECT, more_reasons=", or one that a queue resumes")
    parser = _command(commands, "resume", examples)
    parser.set_defaults(handler=run_module("cli.operate.change"), suspend=False)


def _command(commands: Commands, name: str, examples: str) -> argparse.ArgumentParser:
    parser = add_command(commands, name, examples)
    complete_with_names(parser.add_argument("name", metavar="NAME", help="name of the JobSet, or jobset/NAME"))
    parser.add_argument("-n", "--namespace", default="", metavar="NAME", help="default: that of the context")
    add_cluster_flags(parser)
    return parser


class _JobCounts(argparse.Action):
    """Collects the numbers of Jobs by the name of the ReplicatedJob. Refuses a name that is given twice."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: object) -> None:
        job_counts = dict(values)
        if len(job_counts) < len(values):
            parser.error(f"argument {self.metavar}: a ReplicatedJob is named twice")
        setattr(namespace, self.dest, job_counts)


def _job_count(text: str) -> tuple[str, int]:
    name, equals, number = text.partition("=")
    if not (name and equals and number.isascii() and number.isdigit() and len(number) <= MAX_DIGITS):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=JOBS with a whole number of Jobs, such as workers=6")
    return name, int(number)


def _seconds(text: str) -> float:
    from kube.model.durations import parse_duration  # noqa: PLC0415 (only for this flag)

    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _attempt(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of restarts: 0 or more")
    return int(text)

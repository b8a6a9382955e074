"""Reads the settings of the agent from its environment, and reports all problems together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from agent import watchdog_settings
from agent.environment import read_flag, read_number
from agent.watchdog_settings import WatchdogSettings, read_watchdog

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
DEFAULT_PATH = "/barrier-is-down"
DEFAULT_PORT = "8081"
DEFAULT_EXIT_CODE = "1"
DEFAULT_MESSAGE_PATH = "/dev/termination-log"
ACKNOWLEDGEMENT = "JOBSET_ACKNOWLEDGEMENT_FILE"
DEFAULT_ACKNOWLEDGEMENT = "/tmp/jobset-acknowledgement"  # noqa: S108 - the container's own, and the worker may do as much

HELP = f"""\
usage: agent [-- COMMAND [ARGUMENT ...]]     (everything else comes from the environment)

Holds this pod's worker back until all pods of its JobSet are ready for the same attempt, and ends when that attempt is
over, so that the kubelet starts the worker again without a new pod. For JobSets with
spec.failurePolicy.restartStrategy: InPlaceRestart; for others, and for those with the annotation
jobset.sigs.k8s.io/disable-in-place-restart, it lets the worker start at once. It can end a worker that hangs, too.

required, unless IN_PLACE_RESTART is false:
  JOBSET_NAME                  name of the JobSet (fieldRef metadata.labels['jobset.sigs.k8s.io/jobset-name'])
  POD_NAME                     name of this pod (fieldRef metadata.name)

to run the worker as a child of the agent (main container mode), one of both:
  COMMAND [ARGUMENT ...]       run without a shell when the barrier is lifted; the agent ends with its exit code
  WORKER_COMMAND               the same, run by `$SHELL -c`
  SHELL                        the shell for that and for STACK_DUMP_COMMAND; without it, the bash in PATH

to run beside the worker (sidecar mode, without a command):
  STARTUP_PROBE_PORT           port of the agent's startup probe, default {DEFAULT_PORT}
  STARTUP_PROBE_PATH           path that answers 200 once the barrier is lifted, default {DEFAULT_PATH}

{watchdog_settings.HELP}
optional:
  IN_PLACE_RESTART             false: start the worker at once and never ask the API server. Then the agent is only a
                               watchdog: it needs no ServiceAccount and none of the required variables; default true
  RESTART_WORKER_ONLY          true: when another pod has failed, the agent starts the worker again itself, and its
                               container continues; default false. Main container mode only
  RESTART_FAILED_WORKER        true: so it does when its own worker has failed, too. How, it reports to the manager,
                               which decides what follows; default false
  IN_PLACE_RESTART_EXIT_CODE   exit code that asks the kubelet to start again, 1 to 255, default {DEFAULT_EXIT_CODE}
  TERMINATION_MESSAGE_PATH     terminationMessagePath of the container, for the last lines of a worker that failed, with
                               a watchdog or RESTART_FAILED_WORKER; default {DEFAULT_MESSAGE_PATH}
  JOBSET_ACKNOWLEDGEMENT_FILE  the worker, which finds the path in this variable, writes this file when it is ready to
                               move after a notice of maintenance; main container mode only. Default
                               {DEFAULT_ACKNOWLEDGEMENT}
  SERVICE_ACCOUNT_DIR          folder with token, ca.crt and namespace, default
                               {SERVICE_ACCOUNT}

The pod's ServiceAccount needs: patch on pods; get, list and watch on jobsets.jobset.x-k8s.io.
Exit codes: the worker's (128 + signal where a signal ended it); the two codes above; 128 + signal for SIGINT and
SIGTERM; 1 for settings it cannot work with.
"""


class SettingsError(Exception):
    """The settings are invalid. The text has every problem and what to set."""


class Settings(NamedTuple):
    """All settings of the agent. `worker` is a program with its arguments in main container mode, None in sidecar mode.

    Without `in_place` the agent sends no requests, and the fields for the API server are empty. `account_folder` has
    the files of the ServiceAccount. `exit_code` asks the kubelet to start the container again. `shell` is empty if no
    command needs a shell.
    """

    in_place: bool
    worker_only: bool
    restart_failed: bool
    jobset: str
    pod: str
    namespace: str
    host: str
    port: int
    account_folder: Path
    exit_code: int
    worker: tuple[str, ...] | None
    shell: str
    probe_port: int
    probe_path: str
    message_path: Path
    acknowledgement: Path
    watchdog: WatchdogSettings | None


def read_settings(env: Mapping[str, str], program: Sequence[str] = ()) -> Settings:
    """Settings from the environment. `program` is the command after --, or empty. Raises SettingsError."""
    problems: list[str] = []
    required = {
        "JOBSET_NAME": "set it to the name of the JobSet: valueFrom.fieldRef.fieldPath"
        " metadata.labels['jobset.sigs.k8s.io/jobset-name']",
        "POD_NAME": "set it to the name of this pod: valueFrom.fieldRef.fieldPath metadata.name",
        "KUBERNETES_SERVICE_HOST": "the kubelet sets it in every pod; outside of one, set the API server's address",
        "KUBERNETES_SERVICE_PORT": "the kubelet sets it in every pod; outside of one, set the API server's port",
    }
    command = env.get("WORKER_COMMAND", "")
    has_worker = bool(command or program)
    in_place = _restarts_in_place(env, problems, has_worker=has_worker)
    if command and program:
        problems.append("WORKER_COMMAND and a command after -- exclude each other: set one of them")
    if in_place:
        problems += [f"{name} is not set: {hint}" for name, hint in required.items() if not env.get(name)]
    probe_variables = [name for name in ("STARTUP_PROBE_PATH", "STARTUP_PROBE_PORT") if env.get(name)]
    if has_worker and probe_variables:
        problems.append(
            f"{'WORKER_COMMAND' if command else 'a command after --'} and {' and '.join(probe_variables)} exclude each"
            " other: set the command alone to run the worker as a child of the agent, the probe alone to run the agent"
            " beside it"
        )
    probe_path = env.get("STARTUP_PROBE_PATH") or DEFAULT_PATH
    if not probe_path.startswith("/"):
        problems.append(f"STARTUP_PROBE_PATH is {probe_path!r}: it has to start with /")
    shell = _find_shell(env, problems) if command or env.get("STACK_DUMP_COMMAND") else ""
    account_folder = Path(env.get("SERVICE_ACCOUNT_DIR") or SERVICE_ACCOUNT)
    restart_failed = _restarts_worker(env, "RESTART_FAILED_WORKER", problems, has_worker=has_worker)
    settings = Settings(
        in_place=in_place,
        worker_only=_restarts_worker(env, "RESTART_WORKER_ONLY", problems, has_worker=has_worker) or restart_failed,
        restart_failed=restart_failed,
        jobset=env.get("JOBSET_NAME", ""),
        pod=env.get("POD_NAME", ""),
        namespace=_namespace(account_folder, problems) if in_place else "",
        host=env.get("KUBERNETES_SERVICE_HOST", ""),
        port=read_number(env, "KUBERNETES_SERVICE_PORT", "443", 65535, problems),
        account_folder=account_folder,
        exit_code=read_number(env, "IN_PLACE_RESTART_EXIT_CODE", DEFAULT_EXIT_CODE, 255, problems),
        worker=(shell, "-c", command) if command else tuple(program) or None,
        shell=shell,
        probe_port=read_number(env, "STARTUP_PROBE_PORT", DEFAULT_PORT, 65535, problems),
        probe_path=probe_path,
        message_path=Path(env.get("TERMINATION_MESSAGE_PATH") or DEFAULT_MESSAGE_PATH),
        acknowledgement=Path(env.get(ACKNOWLEDGEMENT) or DEFAULT_ACKNOWLEDGEMENT),
        watchdog=read_watchdog(env, problems, has_worker=has_worker),
    )
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _restarts_in_place(env: Mapping[str, str], problems: list[str], *, has_worker: bool) -> bool:
    is_enabled = read_flag(env, "IN_PLACE_RESTART", problems, default=True)
    if not is_enabled and not has_worker:
        problems.append("IN_PLACE_RESTART is false without a command: there is nothing that the agent could do")
    return is_enabled


def _restarts_worker(env: Mapping[str, str], name: str, problems: list[str], *, has_worker: bool) -> bool:
    is_enabled = read_flag(env, name, problems, default=False)
    if is_enabled and not has_worker:
        problems.append(f"{name} is true without a command: an agent beside the worker cannot start it again")
    return is_enabled


def _namespace(account_folder: Path, problems: list[str]) -> str:
    file = account_folder / "namespace"
    try:
        name = file.read_text().strip()
    except OSError as error:
        reason = error.strerror
    else:
        if name:
            return name
        reason = "it is empty"
    problems.append(
        f"the pod's namespace cannot be read from {file} ({reason}): mount the ServiceAccount's token"
        " (automountServiceAccountToken: true), or set SERVICE_ACCOUNT_DIR to a folder with token, ca.crt and namespace"
    )
    return ""


def _find_shell(env: Mapping[str, str], problems: list[str]) -> str:
    """The shell's path: `$SHELL`, else the bash in PATH."""
    shell = env.get("SHELL") or "bash"
    folders = [""] if "/" in shell else env.get("PATH", os.defpath).split(os.pathsep)
    for folder in folders:
        path = os.path.join(folder, shell)  # noqa: PTH118 - an empty PATH entry means here; Path has no such meaning
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112 - see above
            return path
    if env.get("SHELL"):
        problems.append(f"SHELL is {shell!r}, which cannot be run: set it to a shell of this image, such as /bin/sh")
    else:
        problems.append("SHELL is not set and there is no bash in PATH: set SHELL to a shell of this image: /bin/sh")
    return ""

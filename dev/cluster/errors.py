"""The exception that users of `dev.cluster` see. Its text says what failed, where, why, and how to fix it."""

import errno
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

MIB = 1024 * 1024


class DevclusterError(Exception):
    """A failure that ends the command. Its text is for the user, and may have several lines."""


class UsageError(DevclusterError):
    """A request that is not valid on any machine."""


def not_up_error(name: str, running: Sequence[str]) -> DevclusterError:
    """The error for a cluster that does not run. `running` are the names of clusters that run."""
    start = f"start it with `jobset cluster up --name {name}`"
    running_clusters = f"up are {', '.join(running)}: use --name {running[0]}, or " if running else ""
    hint = "One that was started with --state-dir is found with the same flag only."
    return DevclusterError(f"cluster {name!r} is not up: {running_clusters}{start}. {hint}")


def gone_message(name: str) -> str:
    """The message for a cluster whose supervisor is gone."""
    return (
        "its processes have ended without a command to end them (has the machine been restarted?):"
        f" `jobset cluster down --name {name}` removes what is left."
    )


def ended_message(name: str) -> str:
    """The message for a cluster that has ended because one of its components has ended."""
    return (
        f"The cluster has ended with all that was in it. `jobset cluster down --name {name}` removes what is left; then"
        " start it as before: `jobset cluster up`, or `jobset demo --keep`."
    )


def disk_full(path: Path, needed: str) -> DevclusterError:
    """The error for a full file system below `path`. `needed` is a text such as "200 MiB"."""
    return DevclusterError(
        f"disk full: {path} needs {needed}, its file system has {_free_mib(path)} MiB free.\n"
        f"Free some space there, or point XDG_CACHE_HOME / XDG_STATE_HOME at a larger disk."
    )


def require_space(path: Path, mib: int) -> None:
    """Raise DevclusterError if fewer than `mib` MiB are free below `path`, which need not exist yet."""
    if _free_mib(path) < mib:
        raise disk_full(path, f"{mib} MiB")


def _free_mib(path: Path) -> int:
    existing_path = next(parent for parent in [path, *path.parents] if parent.exists())
    return shutil.disk_usage(existing_path).free // MIB


@contextmanager
def disk_errors(path: Path, needed: str) -> Iterator[None]:
    """Turn errors about space and permissions while writing below `path` into a DevclusterError with a fix."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(path, needed) from error
        if isinstance(error, PermissionError):
            raise DevclusterError(
                f"cannot write {error.filename or path}: {error.strerror}.\n"
                f"Make {path} writable for this user, or choose another place with XDG_CACHE_HOME / "
                f"XDG_STATE_HOME."
            ) from error
        raise

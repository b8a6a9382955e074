"""Runs `jobset restart`: suspends the JobSet, waits until its Jobs are suspended, and resumes it."""

import asyncio
from dataclasses import dataclass
from typing import TextIO

from api.jobset import JobSet
from cli import session
from cli.operate.change import patch_jobset, refuse_queued, write_warnings
from cli.operate.wait import TIMED_OUT, wait_for_state
from jobset_client.errors import NeverError, RefusedError
from jobset_client.states import is_change, suspend_patch, title


@dataclass(frozen=True, slots=True)
class Options(session.NamedJobSet):
    """A JobSet, and the time limit for its suspension in seconds."""

    timeout: float


@session.command("restart", verbs="get, list, watch and patch")
async def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Restart the JobSet, and write each step to `out`, and warnings to `err`. Returns the exit code.

    If the run ends between suspension and resumption, also by Ctrl-C, it writes the command that resumes the JobSet.
    """
    name = session.jobset_name(options.name)
    async with session.connect(options) as connection:
        async with session.explain_missing_jobset(connection, name):
            js = await session.get_jobset(connection, name)
            await _refuse_restart(connection, js)
            write_warnings("restart", await patch_jobset(connection, js, suspend_patch(js, suspend=True)), err)
        out.write(f"{title(js)}: suspended; waits until its Jobs are\n")
        out.flush()
        time_limit = asyncio.timeout(options.timeout)
        try:
            async with time_limit:
                await wait_for_state(connection, js, "suspended")
            async with session.explain_missing_jobset(connection, name):
                await patch_jobset(connection, js, suspend_patch(js, suspend=False))
        except (NeverError, session.NoJobSetError):
            raise  # the JobSet has ended or is gone, so it cannot be resumed
        except BaseException:
            timeout_text = f", still not suspended after {options.timeout:g} s" if time_limit.expired() else ""
            err.write(
                f"jobset restart: {title(js)}: not done{timeout_text}. It stays suspended until you resume it:"
                f" jobset resume {name} -n {connection.namespace}\n"
            )
            if time_limit.expired():
                return TIMED_OUT
            raise
    out.write(f"{title(js)}: resumed\n")
    return session.DONE


async def _refuse_restart(connection: session.Session, js: JobSet) -> None:
    """Raise `RefusedError` if a restart would change nothing, or another controller decides when the JobSet runs."""
    if not is_change(js, suspend=True):
        await refuse_queued(connection, js, "resume")
        raise RefusedError(
            f"{title(js)} is suspended: jobset resume {js.metadata.name} -n {js.metadata.namespace} starts its pods"
        )
    await refuse_queued(connection, js, "restart")

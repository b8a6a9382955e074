"""One run of `jobset restart`: suspends the JobSet, waits until no Job of it runs, and resumes it."""

import asyncio
from dataclasses import dataclass
from typing import TextIO

from api.jobset import JobSet
from cli import session
from cli.check.findings import printable
from cli.operate.change import refuse_ended, write
from cli.operate.queued import refuse_restart, refuse_resume
from cli.operate.wait import TIMED_OUT, until
from controllers.resources import JOBSETS
from kube.options import COMMAND_TIMEOUT


@dataclass(frozen=True, slots=True)
class Options:
    """Which JobSet, and for how many seconds its Jobs may take to be suspended. Empty: as for `session.connect`."""

    name: str
    timeout: float
    namespace: str = ""
    kubeconfig: str = ""
    context: str = ""


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Restart it; say each step to `out`, or to `err` why not; gives the exit code.

    Whatever happens between the two writes, Ctrl-C too, a line names the command that lets the pods run again.
    """

    async def work() -> int:
        name = session.jobset_name(options.name)
        place = {"kubeconfig": options.kubeconfig, "context": options.context, "namespace": options.namespace}
        async with session.connect(**place) as to:
            title = f"JobSet {to.namespace}/{name}"
            async with session.naming(to, name):
                js = await to.client.get(JOBSETS, name, namespace=to.namespace, type=JobSet, timeout=COMMAND_TIMEOUT)
                await _refuse(to, js, title)
                warnings = await write(to, js, suspend=True)
                err.writelines(f"jobset restart: warning: {printable(text)}\n" for text in warnings)
            out.write(f"{title}: suspended; waits until its Jobs are\n")
            out.flush()
            waiting = asyncio.timeout(options.timeout)
            try:
                async with waiting:
                    await until(to, js, "suspended")
                async with session.naming(to, name):
                    await write(to, js, suspend=False)
            except (session.RefusedError, session.NoJobSetError):
                raise  # it has ended or is gone: there is nothing to resume
            except BaseException:
                late = f", still not suspended after {options.timeout:g} s" if waiting.expired() else ""
                err.write(
                    f"jobset restart: {title}: not done{late}. It stays suspended until you resume it:"
                    f" jobset resume {name} -n {to.namespace}\n"
                )
                if waiting.expired():
                    return TIMED_OUT
                raise
        out.write(f"{title}: resumed\n")
        return session.DONE

    return session.run("restart", work, err, right="get, list, watch and patch")


async def _refuse(to: session.Session, js: JobSet, title: str) -> None:
    """Raise `RefusedError` where a restart would change nothing, or somebody else decides when it runs again."""
    refuse_ended(js)
    if js.suspended:
        await refuse_resume(to, js, title)
        raise session.RefusedError(
            f"{title} is suspended: jobset resume {js.metadata.name} -n {js.metadata.namespace} starts its pods"
        )
    await refuse_restart(to, js, title)

"""One run of `jobset suspend` or `jobset resume`: writes `spec.suspend`, if that means anything."""

from dataclasses import dataclass
from typing import TextIO

from api.jobset import JobSet
from cli import session
from cli.check.findings import printable
from cli.operate.queued import refuse_resume, refuse_suspend
from controllers.resources import JOBSETS
from diagnose.states import end_summary
from kube.options import COMMAND_TIMEOUT

FIELD_MANAGER = "jobset-cli"
"""Whose field `spec.suspend` is, in metadata.managedFields."""


@dataclass(frozen=True, slots=True)
class Options:
    """Which JobSet, and whether its pods shall run. Empty: as for `session.connect`."""

    name: str
    suspend: bool
    namespace: str = ""
    kubeconfig: str = ""
    context: str = ""


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the field; say to `out` what is so now, or to `err` why not; gives the exit code."""
    command = "suspend" if options.suspend else "resume"

    async def work() -> int:
        name = session.jobset_name(options.name)
        place = {"kubeconfig": options.kubeconfig, "context": options.context, "namespace": options.namespace}
        async with session.connect(**place) as to:
            title = f"JobSet {to.namespace}/{name}"
            async with session.naming(to, name):
                js = await to.client.get(JOBSETS, name, namespace=to.namespace, type=JobSet, timeout=COMMAND_TIMEOUT)
                refuse_ended(js)
                if js.suspended == options.suspend:
                    said = "is suspended already" if options.suspend else "is not suspended: there is nothing to resume"
                    out.write(f"{title}: {said}\n")
                    return session.DONE
                await (refuse_suspend if options.suspend else refuse_resume)(to, js, title)
                warnings = await write(to, js, suspend=options.suspend)
                err.writelines(f"jobset {command}: warning: {printable(text)}\n" for text in warnings)
        out.write(f"{title}: {'suspended' if options.suspend else 'resumed'}\n")
        return session.DONE

    return session.run(command, work, err, right="get and patch")


async def write(to: session.Session, js: JobSet, *, suspend: bool) -> list[str]:
    """Write the field of this very JobSet, not of a later one of its name. Gives the API server's warnings."""
    warnings: list[str] = []
    await to.client.patch(
        JOBSETS,
        js.metadata.name,
        {"metadata": {"uid": js.metadata.uid}, "spec": {"suspend": suspend}},
        namespace=to.namespace,
        field_manager=FIELD_MANAGER,
        warnings=warnings,
        timeout=COMMAND_TIMEOUT,
    )
    return warnings


def refuse_ended(js: JobSet) -> None:
    """Raise `RefusedError` where the set has ended, or is about to go: nothing makes it run again."""
    meta = js.metadata
    if meta.deletion_timestamp is not None:
        raise session.RefusedError(
            f"JobSet {meta.namespace}/{meta.name} is being deleted since {meta.deletion_timestamp}:"
            f" jobset explain {meta.name} -n {meta.namespace} says what keeps it"
        )
    if how := end_summary(js):
        raise session.RefusedError(
            f"JobSet {meta.namespace}/{meta.name} {how}; a JobSet that has ended does not change any more:"
            " delete it and create it again to run it once more"
        )

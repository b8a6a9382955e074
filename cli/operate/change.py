"""Runs `jobset suspend` and `jobset resume`: writes `spec.suspend` if this has an effect."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TextIO

from api.jobset import JobSet
from cli import session
from cli.messages import write_messages
from controllers.resources import JOBSETS
from diagnose.fixes import workloads_command
from jobset_client.states import is_change, queue_of, queue_refusal, suspend_patch, title
from kube.client import Body, PatchType
from kube.options import COMMAND_TIMEOUT
from kube.resources import KUEUE_WORKLOADS

FIELD_MANAGER = "jobset-cli"
"""The field manager of fields that commands write."""


@dataclass(frozen=True, slots=True)
class Options(session.NamedJobSet):
    """A JobSet, and the new value of `spec.suspend`."""

    suspend: bool


def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Change `spec.suspend`, and write the new state to `out`, or the problem to `err`. Returns the exit code."""
    command = "suspend" if options.suspend else "resume"

    @session.command(command, verbs="get and patch")
    async def change(options: Options, out: TextIO, err: TextIO) -> int:
        async with session.open_jobset(options) as (connection, js):
            if not is_change(js, suspend=options.suspend):
                text = "is suspended already" if options.suspend else "is not suspended: there is nothing to resume"
                out.write(f"{title(js)}: {text}\n")
                return session.DONE
            await refuse_queued(connection, js, command)
            write_warnings(command, await patch_jobset(connection, js, suspend_patch(js, suspend=options.suspend)), err)
        out.write(f"{title(js)}: {'suspended' if options.suspend else 'resumed'}\n")
        return session.DONE

    return change(options, out, err)


async def patch_jobset(
    connection: session.Session, js: JobSet, body: Body, patch_type: PatchType = PatchType.MERGE
) -> list[str]:
    """Patch the JobSet, and return the API server's warnings."""
    warnings: list[str] = []
    await connection.client.patch(
        JOBSETS,
        js.metadata.name,
        body,
        patch_type=patch_type,
        namespace=connection.namespace,
        field_manager=FIELD_MANAGER,
        warnings=warnings,
        timeout=COMMAND_TIMEOUT,
    )
    return warnings


def write_warnings(command: str, texts: Iterable[str], err: TextIO) -> None:
    """Write the API server's warnings to `err`."""
    write_messages(command, (f"warning: {text}" for text in texts), err)


async def refuse_queued(connection: session.Session, js: JobSet, command: str) -> None:
    """Raise `RefusedError` if Kueue decides when the JobSet runs. Its text says what to do instead of `command`."""
    if not (queue_of(js) and await connection.client.serves(KUEUE_WORKLOADS.group)):
        return
    meta, workloads = js.metadata, workloads_command(js)
    patch = f'kubectl patch -n {meta.namespace} $({workloads} -o name) --type=merge -p \'{{"spec":{{"active":%s}}}}\''
    clause_by_command = {
        "resume": f"resumes it when it admits it: {workloads} says when",
        "suspend": "would resume it at once. Kueue ends its pods and keeps it suspended:"
        f" {patch % 'false'}; with true it may be admitted again",
        "restart": "decides when it runs. Kueue ends its pods, and starts them again when it admits it once more:"
        f" {patch % 'false'} && jobset wait {meta.name} -n {meta.namespace} --for=suspended && {patch % 'true'}",
    }
    raise queue_refusal(js, clause_by_command[command])

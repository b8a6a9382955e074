"""Runs `jobset scale`: changes `replicas` of ReplicatedJobs of a JobSet."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from cli import session
from cli.operate.change import patch_jobset, write_warnings
from jobset_client.states import scale_patch, title
from kube.client import PatchType


@dataclass(frozen=True, slots=True)
class Options(session.NamedJobSet):
    """A JobSet, and the new number of Jobs by ReplicatedJob."""

    replicas: Mapping[str, int]


@session.command("scale", verbs="get and patch")
async def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Change the numbers of Jobs, and write them to `out`, and warnings to `err`. Returns the exit code."""
    async with session.open_jobset(options) as (connection, js):
        patch = scale_patch(js, options.replicas)
        job_counts = ", ".join(f"{rjob} has {number}" for rjob, number in options.replicas.items())
        if not patch:
            out.write(f"{title(js)}: {job_counts} already\n")
            return session.DONE
        write_warnings("scale", await patch_jobset(connection, js, patch, PatchType.JSON), err)
    out.write(f"{title(js)}: scaled: {job_counts}\n")
    return session.DONE

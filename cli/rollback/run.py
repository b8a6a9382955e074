"""Runs `jobset rollback-check`: reads all JobSets and gated pods, writes concerns, and lifts gates for --release.

A concern is a change of behavior of one object after a rollback to the Go JobSet. Concerns are written as soon as they
are found, so that memory only has one page of a list, and the names of the Jobs of one JobSet.
"""

from dataclasses import dataclass
from typing import TextIO

from api.batch import OwnedObject
from api.keys import AWAITS_LEADER, JOBSET_NAME, OUR_GATES, SPARES
from api.rollback import completed_job_concerns, has_completed_jobs, pod_concerns, spec_concerns
from cli import session
from cli.messages import printable
from cli.rollback.report import Report
from controllers.resources import JOBSETS
from kube.client import Client, PatchType
from kube.errors import Conflict, NotFound
from kube.model.meta import JSON
from kube.options import METADATA_LIST
from kube.resources import JOBS, PODS

_UNGATE_PATCH: JSON = {
    "metadata": {"labels": {AWAITS_LEADER: None}},
    "spec": {"schedulingGates": [{"$patch": "delete", "name": gate} for gate in OUR_GATES]},
}


@dataclass(frozen=True, slots=True)
class Options(session.ClusterFlags):
    """The namespace (empty for all), and the form of the output. `release`: whether to lift scheduling gates."""

    output: str = "table"
    release: bool = False


@session.command("rollback-check", verbs="")
async def run(options: Options, out: TextIO, err: TextIO) -> int:
    """Write the concerns to `out`, and the pods whose gates are lifted to `err`. Returns the exit code.

    After an error the output is incomplete, so JSON is not closed.
    """
    report = Report(options.output, out)
    async with session.connect(options) as connection:
        await check(connection.client, options, report, err)
    report.close()
    return session.FAILED if report.count else session.DONE


async def check(client: Client, options: Options, report: Report, err: TextIO) -> None:
    """Report concerns. With `release`, lift scheduling gates instead of reporting them, and write the pods to `err`."""
    async for js in client.pages(JOBSETS, namespace=options.namespace):
        for concern in spec_concerns(js):
            report.add(concern)
        if has_completed_jobs(js):
            for concern in completed_job_concerns(js, await _owned_job_names(client, js)):
                report.add(concern)
    for selector in (f"{AWAITS_LEADER}=true", SPARES):
        async for pod in client.pages(PODS, namespace=options.namespace, label_selector=selector):
            for concern in pod_concerns(pod):
                if not options.release:
                    report.add(concern)
                elif await _release_pod(client, pod):
                    err.write(printable(f"lifted the gate of pod {concern.namespace}/{concern.name}") + "\n")


async def _owned_job_names(client: Client, js: JSON) -> frozenset[str]:
    """The names of the Jobs that the JobSet owns."""
    meta = js["metadata"]
    selector = f"{JOBSET_NAME}={meta['name']}"
    jobs = client.pages(
        JOBS, type=OwnedObject, namespace=meta["namespace"], label_selector=selector, accept=METADATA_LIST
    )
    return frozenset([job.metadata.name async for job in jobs if job.metadata.controlled_by(meta["uid"])])


async def _release_pod(client: Client, pod: JSON) -> bool:
    """Lift the gate of a pod, identified by its UID. Returns False if the pod is gone."""
    meta = pod["metadata"]
    body = {**_UNGATE_PATCH, "metadata": {**_UNGATE_PATCH["metadata"], "uid": meta["uid"]}}
    try:
        await client.patch(PODS, meta["name"], body, patch_type=PatchType.STRATEGIC, namespace=meta["namespace"])
    except (NotFound, Conflict):  # the pod is gone, or another pod has its name
        return False
    return True

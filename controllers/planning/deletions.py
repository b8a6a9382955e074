"""Deletions of child Jobs, one call for each."""

from collections.abc import Iterable

from api.batch import Job
from controllers.planning.actions import DeleteJob
from controllers.planning.child_jobs import Child


def delete(children: Iterable[Child]) -> tuple[DeleteJob, ...]:
    """Delete those that are not in deletion."""
    return tuple(DeleteJob(child.name, child.job.metadata.uid) for child in children if not child.deleting)


def delete_unfinished(jobs: Iterable[Job]) -> tuple[DeleteJob, ...]:
    """Delete those that run and are not in deletion. One that has ended meanwhile may be known to be so too late."""
    return tuple(
        DeleteJob(job.metadata.name, job.metadata.uid, job.metadata.resource_version)
        for job in jobs
        if job.outcome is None and job.metadata.deletion_timestamp is None
    )

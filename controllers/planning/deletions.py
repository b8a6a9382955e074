"""Deletions of child Jobs, one call for each."""

from collections.abc import Iterable

from controllers.planning.actions import DeleteJob
from controllers.planning.child_jobs import Child


def delete(children: Iterable[Child]) -> tuple[DeleteJob, ...]:
    """Delete those that are not in deletion."""
    return tuple(DeleteJob(child.name, child.job.metadata.uid) for child in children if not child.deleting)

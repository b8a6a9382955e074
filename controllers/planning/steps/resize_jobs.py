"""Step: patch running Jobs after a change of their size in the spec (gate ElasticJobSet, KEP-463).

See docs/reference/children.md#elastic-sets. The size of an Indexed Job is its number of pods: the patch sets
parallelism and completions to the values of the template. When the number of Jobs changes, the patch also sets the
labels that have numbers and indexes of Jobs. Pods keep the old labels, since the pod template of a running Job cannot
change.
"""

from api import keys
from api.jobset import ReplicatedJob
from api.layout import JobRange, Layout
from controllers.planning.actions import PatchJob
from controllers.planning.child_jobs import Child
from controllers.planning.context import Context
from controllers.planning.job_patches import guarded_patch
from controllers.planning.partial import NOTHING, Partial
from kube.model.meta import JSON


def resize_jobs(ctx: Context) -> Partial:
    """Patch each active Job whose size or labels differ from the spec, once its scheduling group has the new size."""
    if not ctx.gates["ElasticJobSet"]:
        return NOTHING
    patches = (
        size_patch(child, ctx.ranges[child.replicated_job], ctx.layout)
        for child in ctx.children.active
        if not child.deleting and ctx.groups.may_run(child.name)
    )
    return Partial(actions=tuple(patch for patch in patches if patch is not None))


def size_patch(child: Child, jobs: JobRange, layout: Layout) -> PatchJob | None:
    """The patch that gives an active Job the size and labels of the spec; None if the Job has them.

    `jobs`: the indexes of the Jobs of its ReplicatedJob.
    """
    rjob = jobs.replicated_job
    patch: JSON = {}
    size = _size(rjob)
    job = child.job
    if size is not None and (job.spec.parallelism, job.spec.completions) != (size, size):
        patch["spec"] = {"parallelism": size, "completions": size}
    labels = _size_labels(child, jobs, layout)
    changed_labels = {key: value for key, value in labels.items() if job.metadata.labels.get(key) != value}
    if changed_labels:
        patch["metadata"] = {"labels": changed_labels, "annotations": changed_labels}
    return PatchJob(child.name, guarded_patch(child, patch)) if patch else None


def _size(rjob: ReplicatedJob) -> int | None:
    """The wanted parallelism and completions; None unless the Job is Indexed and its template has the same for both.

    A template without parallelism and completions means one pod, which is also the API server's default (defect 13 in
    docs/reference/defects.md).
    """
    if rjob.completion_mode != "Indexed" or rjob.parallelism != rjob.completions:
        return None
    return 1 if rjob.parallelism is None else rjob.parallelism


def _size_labels(child: Child, jobs: JobRange, layout: Layout) -> dict[str, str]:
    return {
        keys.REPLICATED_JOB_REPLICAS: str(jobs.replicated_job.replicas),
        keys.GLOBAL_REPLICAS: str(layout.global_replicas),
        keys.GROUP_REPLICAS: str(jobs.group_replicas),
        keys.JOB_GLOBAL_INDEX: str(child.global_index),
        keys.JOB_GROUP_INDEX: str(jobs.group_offset + child.job_index),
    }

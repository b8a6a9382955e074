"""Step: restart the set with fewer Jobs if pods find no node, or with the number of Jobs that the user has changed.

Gate JobSetElasticReplicas; see docs/concepts/elastic.md. An elastic ReplicatedJob may run with any number of Jobs from
its `elastic.min` to its `replicas`. While it runs with fewer Jobs, `status.reducedReplicas` has the number, and
`replicas` in the spec keeps the user's number. The step `grow_back` adds Jobs again when there is room. A suspension
clears the number in the status, because a queue admits the set with all of its Jobs.

The pending pods come from a query of the step `watch_start`.
"""

from collections import Counter

from api import keys
from api.elastic import GATE, ReducedReplicas
from api.jobset import ReplicatedJob
from controllers.planning.attempts import PLANNED, restart_set
from controllers.planning.child_jobs import integer
from controllers.planning.context import Context
from controllers.planning.elastic import REDUCED, RESIZED, capacity_policy, reducible_names, restarted_jobs
from controllers.planning.partial import NOTHING, LastPartial, Partial, draft_result
from controllers.planning.start_timeout import unschedulable_pods
from controllers.planning.status import StatusDraft, list_some


def adapt_replicas(ctx: Context) -> Partial:
    """Restart the set with another number of Jobs if the user has changed it, or if pods find no node for too long."""
    for rjob in ctx.js.spec.replicated_jobs:  # a loop for speed: every plan runs this
        if rjob.elastic is not None:
            return _adapt(ctx)
    return NOTHING


def _adapt(ctx: Context) -> Partial:
    """The result of the step for a set with elastic ReplicatedJobs."""
    policy, stored = capacity_policy(ctx.failure_policy), ctx.status.reduced_replicas
    draft = ctx.draft()
    if not ctx.gates[GATE]:
        if policy is not None:
            draft.warn_of_gate("spec.failurePolicy.nodeFailure.whenNoCapacity", GATE)
        draft.update(reduced_replicas=())
        return draft_result(draft)
    full_sizes = {rjob.name: rjob.replicas for rjob in ctx.observed.jobset.spec.replicated_jobs}
    entries = () if ctx.js.spec.suspend else tuple(e for e in stored if e.replicas < full_sizes.get(e.name, 0))
    if entries != stored:
        draft.update(reduced_replicas=entries)
    if ctx.js.spec.suspend or ctx.children.failed:
        return draft_result(draft)
    if _follow_user(ctx, draft):
        return draft_result(draft, kind=LastPartial)
    if policy is None or ctx.may_have_old_pods:  # pods of the earlier attempt may be on the nodes of the new pods
        return draft_result(draft)
    pods = unschedulable_pods(ctx.observed.pending_pods, policy.shrink_after_seconds, ctx.now)
    names = reducible_names(ctx.js) if pods else frozenset()
    waiting_jobs = (child for child in ctx.children.active if child.job.metadata.uid in pods and child.may_run)
    nodeless_jobs = restarted_jobs(ctx.js, (child for child in waiting_jobs if child.replicated_job in names))
    if not nodeless_jobs:
        return draft_result(draft)
    counts = Counter(child.replicated_job for child in nodeless_jobs)
    sizes = {
        rjob.name: _reduced_size(rjob, counts[rjob.name]) for rjob in ctx.js.spec.replicated_jobs if counts[rjob.name]
    }
    _set_sizes(ctx, draft, sizes)
    pod = pods[nodeless_jobs[0].job.metadata.uid]
    changes = [f"replicatedJob {name} continues with {size} of {full_sizes[name]} Jobs" for name, size in sizes.items()]
    cause = f"pod {pod.name} has found no node for {policy.shrink_after_seconds} s ({pod.reason}); {PLANNED}"
    restart_set(draft, REDUCED, list_some(changes, cause, ctx.limits), counts=False, event_type="Normal")
    return draft_result(draft, kind=LastPartial)


def _follow_user(ctx: Context, draft: StatusDraft) -> bool:
    """Restart the set if the user has changed `replicas` of an elastic ReplicatedJob. Returns whether the user has.

    A label in the pod template of each running Job has the number of Jobs at the time of its creation.

    With `whenNoCapacity`, a set that becomes larger does not restart now. The old number is stored as a reduced number,
    and `grow_back` restarts the set when it finds room for more Jobs. This does not work in the first attempt of a set,
    since the placeholders by which `grow_back` finds room are labeled with an earlier attempt.
    """
    elastic = {rjob.name: rjob for rjob in ctx.js.spec.replicated_jobs if rjob.elastic is not None}
    labeled_sizes: dict[str, set[int]] = {name: set() for name in elastic}
    for child in ctx.children.active:
        if child.replicated_job in labeled_sizes and child.may_run:
            number = integer(child.job.spec.template.metadata.labels.get(keys.REPLICATED_JOB_REPLICAS))
            labeled_sizes[child.replicated_job] |= {number} if number is not None else set()
    old_sizes = {name: max(sizes) for name, sizes in labeled_sizes.items() if sizes - {elastic[name].replicas}}
    if not old_sizes:
        return False
    waits_for_room = capacity_policy(ctx.failure_policy) is not None and ctx.status.restarts > 0
    if waits_for_room and all(size < elastic[name].replicas for name, size in old_sizes.items()):
        _set_sizes(ctx, draft, old_sizes)
        return True
    changes = [f"replicatedJob {name} continues with {elastic[name].replicas} Jobs" for name in old_sizes]
    cause = f"their number has changed from {max(old_sizes.values())}; {PLANNED}"
    restart_set(draft, RESIZED, list_some(changes, cause, ctx.limits), counts=False, event_type="Normal")
    return True


def _set_sizes(ctx: Context, draft: StatusDraft, sizes: dict[str, int]) -> None:
    """Store the number of Jobs with which these ReplicatedJobs run from now on."""
    other_entries = (entry for entry in draft.status.reduced_replicas if entry.name not in sizes)
    new_entries = (ReducedReplicas(name=name, replicas=number, since=ctx.now) for name, number in sizes.items())
    draft.update(reduced_replicas=(*other_entries, *new_entries))


def _reduced_size(rjob: ReplicatedJob, nodeless_jobs: int) -> int:
    """How many Jobs of a ReplicatedJob continue if so many of its Jobs have pods that find no node."""
    min_replicas = rjob.elastic.min if rjob.elastic is not None else rjob.replicas
    return max(min_replicas, rjob.replicas - nodeless_jobs)

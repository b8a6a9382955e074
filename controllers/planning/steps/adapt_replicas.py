"""Step: elastic ReplicatedJobs run with as many Jobs as there is room for, up to `replicas`.

Gate JobSetElasticReplicas; see docs/concepts/elastic.md. `watch_start` has asked for the pending pods. The current
number of Jobs is in the status, so that `spec.replicas` keeps the user's number. A suspension clears it, since a queue
admits the full size. `grow_back` adds Jobs.
"""

from collections import Counter

from api import keys
from api.elastic import GATE, ReducedReplicas
from api.jobset import ReplicatedJob
from controllers.planning.attempts import restart_set
from controllers.planning.child_jobs import Child, integer
from controllers.planning.context import Context
from controllers.planning.elastic import PLANNED, REASON, RESIZED, policy_of, reducible, replacements
from controllers.planning.partial import NOTHING, Partial, Stop, draft_result
from controllers.planning.start_timeout import unschedulable
from controllers.planning.status import StatusDraft, list_some


def adapt_replicas(ctx: Context) -> Partial:
    """A planned restart with another number of Jobs: the user wants it, or pods have found no node for long enough."""
    for rjob in ctx.js.spec.replicated_jobs:  # a loop for speed: every plan runs this
        if rjob.elastic is not None:
            return _adapt(ctx)
    return NOTHING


def _adapt(ctx: Context) -> Partial:
    policy, stored = policy_of(ctx.js), ctx.status.reduced_replicas
    draft = ctx.draft()
    if not ctx.gates[GATE]:
        if policy is not None:
            draft.warn_of_gate("spec.failurePolicy.nodeFailure.whenNoCapacity", GATE)
        draft.update(reduced_replicas=())
        return draft_result(draft)
    wanted = {rjob.name: rjob.replicas for rjob in ctx.observed.jobset.spec.replicated_jobs}
    entries = () if ctx.js.spec.suspend else tuple(e for e in stored if e.replicas < wanted.get(e.name, 0))
    if entries != stored:
        draft.update(reduced_replicas=entries)
    if ctx.js.spec.suspend or ctx.children.failed:
        return draft_result(draft)
    if _resize(ctx, draft):
        return draft_result(draft, kind=Stop)
    if policy is None or _old_pods_may_be_left(ctx):
        return draft_result(draft)
    pods = unschedulable(ctx.observed.pending_pods, policy.shrink_after_seconds, ctx.now)
    names = reducible(ctx.js) if pods else frozenset()
    waiting = (child for child in ctx.children.active if child.job.metadata.uid in pods and _runs(child))
    without_node = replacements(ctx.js, (child for child in waiting if child.replicated_job in names))
    if not without_node:
        return draft_result(draft)
    counts = Counter(child.replicated_job for child in without_node)
    fewer = {rjob.name: _fewer(rjob, counts[rjob.name]) for rjob in ctx.js.spec.replicated_jobs if counts[rjob.name]}
    _set_sizes(ctx, draft, fewer)
    pod = pods[without_node[0].job.metadata.uid]
    sizes = [f"replicatedJob {name} continues with {fewer[name]} of {wanted[name]} Jobs" for name in fewer]
    cause = f"pod {pod.name} has found no node for {policy.shrink_after_seconds} s ({pod.why}); {PLANNED}"
    restart_set(draft, REASON, list_some(sizes, cause, ctx.limits), counts=False, event_type="Normal")
    return draft_result(draft, kind=Stop)


def _resize(ctx: Context, draft: StatusDraft) -> bool:
    """Tell the workers the new number of Jobs; False if they have it already.

    With `whenNoCapacity` the set keeps its size until there is room for more. Else it restarts at once, and so does a
    set in its first attempt: placeholders belong to the attempt before, so it cannot have any.
    """
    elastic = {rjob.name: rjob for rjob in ctx.js.spec.replicated_jobs if rjob.elastic is not None}
    reported_sizes: dict[str, set[int]] = {name: set() for name in elastic}
    for child in ctx.children.active:
        if child.replicated_job in reported_sizes and _runs(child):
            number = integer(child.job.spec.template.metadata.labels.get(keys.REPLICATED_JOB_REPLICAS))
            reported_sizes[child.replicated_job] |= {number} if number is not None else set()
    other = {name: numbers for name, numbers in reported_sizes.items() if numbers - {elastic[name].replicas}}
    if not other:
        return False
    waits = policy_of(ctx.js) is not None and ctx.status.restarts > 0
    kept_sizes = {
        name: max(numbers) for name, numbers in other.items() if waits and max(numbers) < elastic[name].replicas
    }
    if len(kept_sizes) == len(other):
        _set_sizes(ctx, draft, kept_sizes)
        return True
    sizes = [f"replicatedJob {name} continues with {elastic[name].replicas} Jobs" for name in other]
    cause = f"their number has changed from {max(max(numbers) for numbers in other.values())}; {PLANNED}"
    restart_set(draft, RESIZED, list_some(sizes, cause, ctx.limits), counts=False, event_type="Normal")
    return True


def _set_sizes(ctx: Context, draft: StatusDraft, sizes: dict[str, int]) -> None:
    """Store the new number of Jobs of these ReplicatedJobs."""
    other_entries = (entry for entry in draft.status.reduced_replicas if entry.name not in sizes)
    new = (ReducedReplicas(name=name, replicas=number, since=ctx.now) for name, number in sizes.items())
    draft.update(reduced_replicas=(*other_entries, *new))


def _runs(child: Child) -> bool:
    return not (child.deleting or child.job.spec.suspend)


def _old_pods_may_be_left(ctx: Context) -> bool:
    """Whether pods of an earlier attempt may still use resources that the new ones wait for."""
    return bool(ctx.children.previous) or ctx.leftovers != frozenset()


def _fewer(rjob: ReplicatedJob, without_node: int) -> int:
    least = rjob.elastic.min if rjob.elastic is not None else rjob.replicas
    return max(least, rjob.replicas - without_node)

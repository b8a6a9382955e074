"""Step: elastic ReplicatedJobs continue with fewer Jobs where pods find no node (gate JobSetElasticReplicas).

See docs/concepts/elastic.md. `watch_start` has asked for the pending pods. How many Jobs there are now is in the
status, so that `spec.replicas` stays what the user wants. A suspension clears it: a queue gives the set all of that.
"""

from collections import Counter

from api.elastic import GATE, ReducedReplicas
from api.jobset import ReplicatedJob
from controllers.planning.attempts import restart_set
from controllers.planning.context import Context
from controllers.planning.elastic import PLANNED, REASON, is_replaced, policy_of, reducible
from controllers.planning.partial import NOTHING, Partial, Stop, of_draft
from controllers.planning.start_timeout import unschedulable
from controllers.planning.status import list_some


def adapt_replicas(ctx: Context) -> Partial:
    """A planned restart with fewer Jobs if pods have found no node for long enough."""
    policy, stored = policy_of(ctx.js), ctx.status.reduced_replicas
    if policy is None and not stored:
        return NOTHING
    draft = ctx.draft()
    if not ctx.gates[GATE]:
        draft.warn_of_gate("spec.failurePolicy.nodeFailure.whenNoCapacity", GATE)
        draft.update(reduced_replicas=())
        return of_draft(draft)
    wanted = {rjob.name: rjob.replicas for rjob in ctx.observed.jobset.spec.replicated_jobs}
    entries = () if ctx.js.suspended else tuple(e for e in stored if e.replicas < wanted.get(e.name, 0))
    if entries != stored:
        draft.update(reduced_replicas=entries)
    if policy is None or ctx.js.suspended or ctx.children.failed or _old_pods_may_be_left(ctx):
        return of_draft(draft)
    pods = unschedulable(ctx.observed.pending_pods, policy.shrink_after_seconds, ctx.now)
    names = reducible(ctx.js) if pods else frozenset()
    without_node = [
        child
        for child in ctx.children.active
        if child.replicated_job in names
        and child.job.metadata.uid in pods
        and not (child.deleting or child.job.spec.suspend)
        and is_replaced(ctx.js, child)
    ]
    if not without_node:
        return of_draft(draft)
    counts = Counter(child.replicated_job for child in without_node)
    fewer = {rjob.name: _fewer(rjob, counts[rjob.name]) for rjob in ctx.js.spec.replicated_jobs if counts[rjob.name]}
    new = (ReducedReplicas(name=name, replicas=number, since=ctx.now) for name, number in fewer.items())
    draft.update(reduced_replicas=(*(entry for entry in entries if entry.name not in fewer), *new))
    pod = pods[without_node[0].job.metadata.uid]
    sizes = [f"replicatedJob {name} continues with {fewer[name]} of {wanted[name]} Jobs" for name in fewer]
    why = f"pod {pod.name} has found no node for {policy.shrink_after_seconds} s ({pod.why}); {PLANNED}"
    restart_set(draft, REASON, list_some(sizes, why, ctx.limits), counts=False, event_type="Normal")
    return of_draft(draft, kind=Stop)


def _old_pods_may_be_left(ctx: Context) -> bool:
    """Whether pods of an earlier attempt may still hold what the new ones wait for."""
    return bool(ctx.children.previous) or ctx.leftovers != frozenset()


def _fewer(rjob: ReplicatedJob, without_node: int) -> int:
    least = rjob.elastic.min if rjob.elastic is not None else rjob.replicas
    return max(least, rjob.replicas - without_node)

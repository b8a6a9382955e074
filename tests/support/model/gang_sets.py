"""Sets whose Jobs are scheduled in groups, in the model of one namespace.

The model refuses what never may be: a Job ahead of its groups, a group ahead of those above it, a change that the API
server does not take, a second object of a name.
"""

from msgspec.structs import replace

from api import keys
from api.jobset import ReplicatedJob
from controllers.planning.actions import CreateGroup, CreateJob, DeleteGroup, PatchGroup
from tests.support.model.world import World
from tests.support.objects.gang_trees import GANG, entry, workers
from tests.support.objects.stored_sets import jobset

RESTART = {"maxRestarts": 3, "restartStrategy": "Recreate"}


def rule(action):
    return {**RESTART, "rules": [{"name": "r", "action": action}]}


NESTED = {"schedulingPolicy": GANG, "replicatedJobs": [entry("workers", job={})]}
"""A composite over a PodGroup for each Job."""
EACH = {"replicatedJobs": [entry("workers", job={})]}
"""A PodGroup for each Job, each a tree of its own."""


def world(*rjobs, scheduling=None, gates=(), **spec):
    return World(
        jobset(*(rjobs or (workers(),)), scheduling={} if scheduling is None else scheduling, **spec),
        **dict.fromkeys(gates, True),
    )


def running(*rjobs, **more):
    """A settled set with all Jobs ready."""
    w = world(*rjobs, **more)
    w.start_jobs()
    return w


def groups_of(plan, kind=CreateGroup | PatchGroup | DeleteGroup):
    return [(type(a).__name__, a.kind) for a in plan.actions if isinstance(a, kind)]


def jobs_of(plan, kind=CreateJob):
    return [a.name for a in plan.actions if isinstance(a, kind)]


def uids(w):
    return {place: of["metadata"]["uid"] for place, of in w.groups.items()}


def ready_condition(w):
    found = w.condition(keys.GROUPS_READY)
    return None if found is None else found[:2]


def resize(w, *, replicas=None, pods=None, number=0):
    rjobs = list(w.js.spec.replicated_jobs)
    old: ReplicatedJob = rjobs[number]
    size = {} if pods is None else {"parallelism": pods, "completions": pods}
    template = {**old.template, "spec": {**old.template["spec"], **size}}
    rjobs[number] = replace(old, template=template, replicas=old.replicas if replicas is None else replicas)
    w.edit(replicated_jobs=tuple(rjobs))


def minima(w: World) -> dict[str, int]:
    """How many members have to fit together, by template and number among the groups of that template."""
    out: dict[str, int] = {}
    for (kind, name), of in sorted(w.groups.items()):
        policy = of["spec"].get("schedulingPolicy", {})
        if kind != "Workload" and "gang" in policy:
            out[name.rpartition("-")[0]] = next(iter(policy["gang"].values()))
    return out

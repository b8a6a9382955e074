"""Causes that are about the manager: none runs, or one runs and does nothing. Pure."""

from api import keys
from app.explain.case import Case
from app.explain.facts import SeenLease
from app.explain.finding import Finding, Found, Level, age, seconds_since

IDLE = 60.0
"""Seconds within which a manager begins with a set."""
NO_MANAGER = "no-manager"
_WHERE = f"-n {keys.MANAGER_NAMESPACE}"
_START = (
    f"kubectl {_WHERE} get deployments,pods shows what there is; a Deployment with 0 replicas is started by kubectl"
    f" {_WHERE} scale deployment --all --replicas=1, one whose pods do not work by kubectl {_WHERE} rollout restart"
    " deployment; on your own machine: make run, or after make demo jobset cluster status. A manager without"
    " --leader-elect or in another namespace is not seen here"
)
"""How to get a manager."""


def no_manager(case: Case, left: frozenset[str]) -> list[Found]:
    """Nothing is created, restarted or placed while no manager runs."""
    if not case.manager_missing or not left:
        return []
    return [Found(unmanaged(case.facts.lease, case.facts.jobset.metadata.creation_timestamp or ""))]


def unmanaged(lease: SeenLease | None, created: str = "") -> Finding:
    """What is said where no manager holds the lease. `created`: RFC 3339, before which a JobSet cannot have waited."""
    renewed = (lease.spec.renew_time if lease else None) or ""
    what = "no manager holds the lease" if renewed else "no manager has ever taken the lease"
    return Finding(
        level=Level.FAULT,
        cause=NO_MANAGER,
        what=f"{what} in namespace {keys.MANAGER_NAMESPACE}: Jobs are neither created nor restarted nor placed",
        fix=_START,
        since=max(renewed, created) if renewed else "",
    )


def idle_manager(case: Case) -> Finding | None:
    """A manager holds the lease and has done nothing about the set since it was created: no Jobs, no status."""
    js, lease = case.facts.jobset, case.facts.lease
    waited = seconds_since(js.metadata.creation_timestamp or "", case.facts.now)
    if lease is None or case.manager_missing or waited is None or waited < IDLE:
        return None
    if case.facts.jobs or js.status.restarts or js.status.replicated_jobs_status:
        return None
    holder = (lease.spec.holder_identity or "").partition("_")[0]
    pod = case.facts.manager
    what = f"a manager runs ({holder} holds the lease) and has done nothing for {age(waited)}"
    if pod is not None and not pod.ready:
        what = f"{what}; it is not ready: a right is missing, or a cache is not filled"
    else:
        what = f"{what}: may it list what it reads?"
    path = f"/api/v1/namespaces/{keys.MANAGER_NAMESPACE}/pods/{holder}:8081/proxy/readyz?verbose"
    fix = (
        f'kubectl get --raw "{path}" names missing rights and caches; kubectl logs -n {keys.MANAGER_NAMESPACE} {holder}'
    )
    return Finding(level=Level.FAULT, cause="manager-idle", what=what, fix=fix)

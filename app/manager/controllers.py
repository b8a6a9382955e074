"""The last stage: builds the controllers from caches, queues and reconcilers, and runs them."""

import asyncio
import logging
import socket
from collections.abc import Hashable
from functools import partial
from typing import TypeVar

from app.manager.options import Deps
from controllers.jobset.controller import NAME, JobSetReconciler, Options
from controllers.jobset.endings import Endings
from controllers.jobset.watches import Watches
from controllers.placement import controller as placement
from controllers.placement.memory import JobRequest
from controllers.placement.watches import PlacementWatches
from controllers.planning.limits import Limits
from kube.client import Client
from kube.controller import Controller, Reconcile, Request
from kube.events import EventRecorder
from kube.workqueue import WorkQueue
from policy.kinds import GATE

log = logging.getLogger(__name__)

WORKERS = 8
"""Number of JobSets reconciled in parallel. A reconcile mostly waits for the API server."""

K = TypeVar("K", bound=Hashable)


async def run_controllers(deps: Deps, client: Client, watches: Watches, placement_watches: PlacementWatches) -> None:
    """Run the controllers. Returns when the queues are shut down and running reconciles have ended.

    `client` writes only while this process leads. `deps.client` writes events, also when this process no longer leads.
    """
    recorder = EventRecorder(
        deps.client, reporting_controller=NAME, reporting_instance=f"{NAME}-{socket.gethostname()}"
    )
    deps.supervisor.start(recorder.run(), "events")
    deps.supervisor.on_drained(recorder.flush)
    jobsets = _jobset_controller(deps, client, watches, recorder)
    followers = _placement_controller(deps, client, watches, placement_watches, recorder)
    policies = _policy_controller(deps, client, watches, recorder) if deps.options.gates[GATE] else None
    log.info("reconciling with %d workers", WORKERS)
    async with asyncio.TaskGroup() as group:
        group.create_task(jobsets.run(), name=jobsets.name)
        group.create_task(followers.run(), name=followers.name)
        if policies is not None:
            group.create_task(policies.run(), name=policies.name)


def _jobset_controller(deps: Deps, client: Client, watches: Watches, recorder: EventRecorder) -> Controller[Request]:
    """The controller of JobSets."""
    options = Options(limits=Limits(create_suspended=deps.options.settings.suspend.create_jobs == "Always"))
    reconciler = JobSetReconciler(
        client, watches.caches(), deps.options.gates, recorder, deps.metrics.milestones, options
    )
    controller = _controller(deps, NAME, reconciler.reconcile, WORKERS)
    watches.jobsets.on_event(Endings(deps.metrics.outcomes, reconciler.memories).on_event)
    watches.jobs.on_event(reconciler.memories.on_job_event)
    watches.feed(controller.queue)
    reconciler.leftover_pods.feed(controller.queue)
    deps.supervisor.start(reconciler.leftover_pods.run(), "old-pods")
    return controller


def _placement_controller(
    deps: Deps, client: Client, watches: Watches, placement_watches: PlacementWatches, recorder: EventRecorder
) -> Controller[JobRequest]:
    """The controller that keeps followers with their leaders."""
    reconciler = placement.PlacementReconciler(client, placement_watches, watches.jobs, recorder)
    controller = _controller(deps, placement.NAME, reconciler.reconcile, placement.WORKERS)
    reconciler.feed(controller.queue)
    return controller


def _policy_controller(deps: Deps, client: Client, watches: Watches, recorder: EventRecorder) -> Controller[Request]:
    """The controller of the status of policies and exceptions. Starts the parts that feed it."""
    # Imported only with the feature gate, since the rules of policies are not used without it.
    from controllers.policy import controller as policy  # noqa: PLC0415
    from controllers.policy.audit import PolicyAudits  # noqa: PLC0415
    from controllers.policy.enforcement import Enforcement  # noqa: PLC0415
    from controllers.policy.reports import PolicyReports  # noqa: PLC0415
    from webhooks.policy.watches import PolicyWatches  # noqa: PLC0415

    reconciler = policy.PolicyReconciler(client, deps.options.gates, recorder, deps.metrics.webhooks)
    controller = _controller(deps, policy.NAME, reconciler.reconcile, policy.WORKERS)
    reconciler.source = source = PolicyWatches(
        deps.client, on_watch=partial(reconciler.feed, controller.queue), logs_policy_count=False
    )
    settings = deps.options.settings.policies
    reports = PolicyReports(client) if settings.reports else None
    audits = PolicyAudits(client, watches.jobsets.store, source, every=settings.audit_interval, reports=reports)
    reconciler.enforcement = enforcement = Enforcement(
        client,
        source,
        deps.options.gates,
        settings.queue_controllers,
        on_change=lambda name: controller.queue.add(Request("", name)),
    )
    deps.supervisor.start(source.run(), "policies")
    deps.supervisor.start(enforcement.run(), "policies-in-api-server")
    deps.supervisor.start(audits.run(), "policy-audits")
    return controller


def _controller(deps: Deps, name: str, reconcile: Reconcile[K], workers: int) -> Controller[K]:
    """A controller with metrics. Shutting down its queue stops it together with the manager."""
    hooks = deps.metrics.queue(name)
    queue: WorkQueue[K] = WorkQueue(metrics=hooks)
    hooks.bind(queue)
    deps.supervisor.on_stop(queue.shutdown, ends_stages=True)
    return Controller(name, queue, reconcile, workers=workers, metrics=deps.metrics.controller(name, workers))

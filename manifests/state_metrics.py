"""Metrics of single JobSets: the configuration with which kube-state-metrics reads them (docs/observability.md).

A path that an object lacks gives no series, or 0 where that is what the API means by it.
"""

from typing import Any

from api.keys import GROUP, KIND, VERSION
from manifests.naming import Object

PREFIX = "kube_jobset"
_QUIET = 10
"""Verbosity at which kube-state-metrics logs that an object lacks a path: most JobSets lack some."""

_STATES = ("ready", "active", "succeeded", "failed", "suspended")
"""What the status counts of the Jobs of a ReplicatedJob."""


def _metric(name: str, about: str, kind: str, path: str, **more: Any) -> Object:
    body = {"path": path.split("."), **more}
    return {"name": name, "help": about, "each": {"type": kind[0].upper() + kind[1:], kind: body}}


def _gauge(name: str, about: str, path: str, **more: Any) -> Object:
    return _metric(name, about, "gauge", path, **more)


def _of_replicated_job(name: str, about: str, path: str, field: str) -> Object:
    return _gauge(name, about, path, labelsFromPath={"replicated_job": ["name"]}, valueFrom=[field])


def _metrics() -> list[Object]:
    zero = {"nilIsZero": True}
    return [
        _gauge("created", "Unix time of creation", "metadata.creationTimestamp"),
        _gauge("suspended", "Whether the JobSet is suspended", "spec.suspend", **zero),
        _gauge("max_restarts", "Restarts that the failure policy allows", "spec.failurePolicy.maxRestarts", **zero),
        _gauge("status_restarts", "Restarts", "status.restarts", **zero),
        _gauge(
            "status_restarts_towards_max",
            "Restarts that count towards the maximum",
            "status.restartsCountTowardsMax",
            **zero,
        ),
        _gauge(
            "status_last_restart_seconds",
            "Seconds from the last restart until all Jobs were ready",
            "status.lastRestart.durationSeconds",
        ),
        _gauge(
            "status_condition",
            "Whether a condition holds",
            "status.conditions",
            labelsFromPath={"type": ["type"], "reason": ["reason"]},
            valueFrom=["status"],
        ),
        _metric(
            "status_terminal_state",
            "How the JobSet has ended",
            "stateSet",
            "status.terminalState",
            labelName="state",
            list=["Completed", "Failed"],
        ),
        _of_replicated_job("replicas", "Jobs of a ReplicatedJob as specified", "spec.replicatedJobs", "replicas"),
        *(
            _of_replicated_job(f"status_jobs_{state}", f"Jobs that are {state}", "status.replicatedJobsStatus", state)
            for state in _STATES
        ),
    ]


def state_metrics() -> Object:
    """The configuration file, for `--custom-resource-state-config-file`."""
    resource = {
        "groupVersionKind": {"group": GROUP, "version": VERSION, "kind": KIND},
        "metricNamePrefix": PREFIX,
        "labelsFromPath": {"namespace": ["metadata", "namespace"], "jobset": ["metadata", "name"]},
        "errorLogV": _QUIET,
        "metrics": _metrics(),
    }
    return {"kind": "CustomResourceStateMetrics", "spec": {"resources": [resource]}}

"""The record of a JobSet (`jobset.x-k8s.io/v1alpha2`), with all fields of its spec. See docs/reference/api.md.

This program decodes JobSets into these records. `make generate` turns the texts and schema keywords of their fields
into the CRD. Templates of Jobs and of volume claims are raw JSON, which no record describes. In the texts of fields,
the API server sets what is called "Default (CRD)", and the mutating webhook of this program sets "Default (webhook)".
"Default (at use)" is never stored.
"""

from typing import Annotated

import msgspec

from api.elastic import Elastic
from api.execution import ExecutionPolicy
from api.jobset_status import JobSetStatus
from api.keys import CONTROLLER_NAME, MAX_REPLICAS
from api.policies import (
    ATOMIC,
    INT32,
    INT64,
    MAP_BY_NAME,
    SHARE_RULE,
    ExitCodePolicy,
    FailurePolicy,
    StartupPolicy,
    SuccessPolicy,
)
from api.scheduling import Scheduling
from kube.model.meta import JSON, Base, ObjectMeta, doc

MAX_DEPENDS_ON = 5
MAX_CLAIM_POLICIES = 50
_IMMUTABLE = [{"rule": "self == oldSelf", "message": "Value is immutable"}]
_STARTUP_OR_DEPENDS_ON = {
    "rule": "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder'"
    " && has(self.replicatedJobs) && self.replicatedJobs.exists(x, has(x.dependsOn)))",
    "message": "StartupPolicy and DependsOn APIs are mutually exclusive",
}
_IS_STAGED = "has(self.executionPolicy) && self.executionPolicy.executionPolicyOrder == 'InOrder'"
STAGES_OR_STARTUP = (
    "executionPolicy InOrder and startupPolicy InOrder exclude each other: keep executionPolicy; startupPolicy is"
    " deprecated, and executionPolicy with replicatedJobsStatus Ready does the same"
)
STAGES_OR_DEPENDS_ON = (
    "executionPolicy InOrder and dependsOn exclude each other: keep dependsOn where a ReplicatedJob waits for several"
    " or for certain ones, executionPolicy where each waits for the one ahead of it in the list"
)
_STAGE_RULES = [
    {
        "rule": f"!({_IS_STAGED} && has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder')",
        "message": STAGES_OR_STARTUP,
    },
    {
        "rule": f"!({_IS_STAGED} && has(self.replicatedJobs) && self.replicatedJobs.exists(x, has(x.dependsOn)))",
        "message": STAGES_OR_DEPENDS_ON,
    },
]
_NO_NAMESPACE = {
    "rule": "!has(self.templates) || self.templates.all(t, !has(t.metadata) || !has(t.metadata.__namespace__)"
    " || size(t.metadata.__namespace__) == 0)",
    "message": "namespace cannot be set for VolumeClaimPolicies templates",
}


class DependsOn(Base, frozen=True, kw_only=True):
    """One stage that has to be reached before the Jobs of a ReplicatedJob are created."""

    name: Annotated[str, doc("Name of a ReplicatedJob that stands earlier in the list.")]
    status: Annotated[
        str,
        doc(
            "What to wait for. Ready: every Job is ready or has succeeded. Complete: every Job succeeded.",
            enum=["Ready", "Complete"],
        ),
    ]


class ReplicatedJob(Base, frozen=True, kw_only=True):
    """A template and the number of Jobs made from it, named `<jobset>-<name>-<index>`."""

    name: Annotated[str, doc("Name, unique in the JobSet; part of every Job and pod name made from it.")]
    group_name: Annotated[
        str,
        doc(
            "Name of the group that numbers its Jobs together (label job-group-index). A DNS-1035 label.",
            default="default",
        ),
    ] = "default"
    template: Annotated[
        JSON,
        doc("Template of the child Jobs (batch/v1 JobTemplateSpec).", **{"x-openapi": "JobTemplateSpec"}),
    ]
    replicas: Annotated[
        int,
        doc(
            "Number of Jobs, from 0 to 1,000,000 (the Go JobSet has no maximum). Default 1 (CRD).",
            minimum=0,
            maximum=MAX_REPLICAS,
            default=1,
            **INT32,
        ),
    ] = 1
    depends_on: Annotated[
        tuple[DependsOn, ...] | None,
        doc(
            "Stages to wait for before these Jobs are created; all of them must be reached. At most 5. Cannot be set on"
            " the first ReplicatedJob, nor together with startupPolicy InOrder.",
            maxItems=MAX_DEPENDS_ON,
            **MAP_BY_NAME,
            **{"x-kubernetes-validations": _IMMUTABLE},
        ),
    ] = None
    exit_code_policy: Annotated[
        ExitCodePolicy | None,
        doc(
            "Which exit codes fail the Job at once and which are retried for free; {} stands for the table of the"
            " training operators. Absent: as the Job's own rules say. Immutable.",
            in_go_jobset=False,
        ),
    ] = None
    elastic: Annotated[
        Elastic | None,
        doc(
            "Bounds of `replicas`, also for a set that runs (feature gate JobSetElasticReplicas). Absent: none."
            " Immutable.",
            in_go_jobset=False,
        ),
    ] = None
    spare_for: Annotated[
        str,
        doc(
            "Name of the ReplicatedJob for whose pods the pods of this one hold places (feature gate JobSetSpares)."
            " The mutating webhook fills in its template. Absent: no spares. Immutable.",
            in_go_jobset=False,
            minLength=1,
        ),
    ] = ""

    @property
    def job_spec(self) -> JSON:
        """`template.spec`, empty when absent."""
        return self.template.get("spec") or {}

    @property
    def parallelism(self) -> int | None:
        """How many pods of one Job may run at the same time; None: not set, which means 1."""
        return self.job_spec.get("parallelism")

    @property
    def completions(self) -> int | None:
        """How many pods of one Job have to succeed; None: not set."""
        return self.job_spec.get("completions")

    @property
    def completion_mode(self) -> str | None:
        """`Indexed`, `NonIndexed`, or None before defaulting."""
        return self.job_spec.get("completionMode")

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the Job template, empty when absent."""
        return (self.template.get("metadata") or {}).get("annotations") or {}

    @property
    def pod_annotations(self) -> dict[str, str]:
        """Annotations of the pod template, empty when absent."""
        return ((self.job_spec.get("template") or {}).get("metadata") or {}).get("annotations") or {}

    @property
    def pod_spec(self) -> JSON:
        """`template.spec.template.spec`, empty when absent."""
        return (self.job_spec.get("template") or {}).get("spec") or {}


class Network(Base, frozen=True, kw_only=True):
    """Names by which the pods of the set find each other."""

    enable_dns_hostnames: Annotated[
        bool | None,
        doc("Give every pod the DNS name `<job>-<completion index>.<subdomain>`. Default true (webhook)."),
    ] = msgspec.field(name="enableDNSHostnames", default=None)
    subdomain: Annotated[
        str,
        doc("Name of the headless Service and subdomain of the pods. Default: the JobSet's own name (at use)."),
    ] = ""
    publish_not_ready_addresses: Annotated[
        bool | None, doc("Publish the addresses of pods that are not ready. Default true (webhook).")
    ] = None


class Coordinator(Base, frozen=True, kw_only=True):
    """The pod whose DNS name every pod of the set carries as label and annotation."""

    replicated_job: Annotated[str, doc("Name of the ReplicatedJob of the coordinator pod.")]
    job_index: Annotated[int, doc("Index of its Job, from 0. Default 0.")] = 0
    pod_index: Annotated[int, doc("Completion index of the pod, from 0. Default 0.")] = 0


class VolumeClaimRetention(Base, frozen=True, kw_only=True):
    """What happens to the claims when the JobSet goes."""

    when_deleted: Annotated[
        str,
        doc(
            "Delete: the claims go with the JobSet. Retain: they stay. Default Delete (CRD).",
            default="Delete",
            enum=["Delete", "Retain"],
        ),
    ] = "Delete"


class VolumeClaimPolicy(Base, frozen=True, kw_only=True):
    """Volume claims that all pods of the set share, named `<template>-<jobset>`."""

    templates: Annotated[
        tuple[JSON, ...],
        doc(
            "Claims to create. A claim is mounted into each pod that has a volumeMount of the template's name."
            " At most 50.",
            maxItems=50,
            **ATOMIC,
            **{"x-openapi-items": "PersistentVolumeClaim"},
        ),
    ] = ()
    retention_policy: Annotated[
        VolumeClaimRetention | None, doc("What happens on deletion. Default whenDeleted: Delete (webhook).")
    ] = None


class JobSetSpec(Base, frozen=True, kw_only=True):
    """What the user wants."""

    replicated_jobs: Annotated[
        tuple[ReplicatedJob, ...],
        doc("The groups of Jobs, in order. Immutable but for what a suspended set may change.", **MAP_BY_NAME),
    ] = ()
    network: Annotated[
        Network | None,
        doc(
            "DNS names of the pods. Default: enabled (webhook). Immutable.",
            **{"x-kubernetes-validations": _IMMUTABLE},
        ),
    ] = None
    success_policy: Annotated[
        SuccessPolicy | None,
        doc(
            "When the set is Completed. Default operator All (webhook). Immutable.",
            **{"x-kubernetes-validations": [*_IMMUTABLE, SHARE_RULE]},
        ),
    ] = None
    failure_policy: Annotated[
        FailurePolicy | None,
        doc(
            "What to do when a Job fails. Absent: the set fails. Immutable.",
            **{"x-kubernetes-validations": _IMMUTABLE},
        ),
    ] = None
    startup_policy: Annotated[
        StartupPolicy | None,
        doc(
            "Order of start; deprecated, use dependsOn. Default AnyOrder (webhook). Immutable.",
            **{"x-kubernetes-validations": _IMMUTABLE},
        ),
    ] = None
    execution_policy: Annotated[
        ExecutionPolicy | None,
        doc(
            "Runs the ReplicatedJobs as stages. Absent: all start at once. Immutable.",
            in_go_jobset=False,
            **{"x-kubernetes-validations": _IMMUTABLE},
        ),
    ] = None
    scheduling: Annotated[
        Scheduling | None,
        doc(
            "Gangs and topology (feature gate JobSetWorkloadAwareSchedulingAPI). Absent: pods are scheduled one by one."
            " May change while the set is suspended and runs no pods.",
            in_go_jobset=False,
        ),
    ] = None
    suspend: Annotated[
        bool | None, doc("True: the Jobs exist and run no pods. May change at any time. Default false.")
    ] = None
    coordinator: Annotated[Coordinator | None, doc("The pod that the others look for. Default: none.")] = None
    managed_by: Annotated[
        str | None,
        doc(
            "Controller that manages this JobSet, as a domain-prefixed path of at most 63 bytes. Any value but"
            " jobset.sigs.k8s.io/jobset-controller keeps this controller away. Immutable."
        ),
    ] = None
    ttl_seconds_after_finished: Annotated[
        int | None,
        doc("Seconds after which a finished JobSet is deleted. Absent: never.", minimum=0, **INT32),
    ] = None
    active_deadline_seconds: Annotated[
        int | None,
        doc(
            "Seconds from status.startTime after which the set fails with reason DeadlineExceeded and its Jobs end"
            " (feature gate JobSetActiveDeadlineSeconds, KEP-1186). The time begins again with a resume and with a"
            " restart of the set, and does not run while the set is suspended. May change at any time. Absent: no"
            " deadline.",
            minimum=1,
            **INT64,
        ),
    ] = None
    volume_claim_policies: Annotated[
        tuple[
            Annotated[
                VolumeClaimPolicy,
                doc("Claims and what becomes of them.", **{"x-kubernetes-validations": [_NO_NAMESPACE]}),
            ],
            ...,
        ],
        doc(
            "Volume claims for the set. At most 50 policies. Immutable.",
            maxItems=MAX_CLAIM_POLICIES,
            **ATOMIC,
            **{"x-kubernetes-validations": _IMMUTABLE},
        ),
    ] = ()


_NO_FAILURE_POLICY = FailurePolicy()


class JobSet(Base, frozen=True, kw_only=True):
    """A set of Jobs that run as one."""

    metadata: ObjectMeta
    spec: Annotated[
        JobSetSpec, doc("What the user wants.", **{"x-kubernetes-validations": [_STARTUP_OR_DEPENDS_ON, *_STAGE_RULES]})
    ] = JobSetSpec()
    status: Annotated[JobSetStatus, doc("What is. Written by the controller.")] = JobSetStatus()

    @property
    def is_ours(self) -> bool:
        """Whether this controller manages the JobSet, and not another controller that `spec.managedBy` names."""
        return self.spec.managed_by in {None, CONTROLLER_NAME}

    @property
    def failure_policy(self) -> FailurePolicy:
        """`spec.failurePolicy`, empty when absent."""
        return self.spec.failure_policy or _NO_FAILURE_POLICY

    @property
    def restarts_in_place(self) -> bool:
        """Whether the failure policy restarts workers in their pods (restartStrategy InPlaceRestart)."""
        policy = self.spec.failure_policy
        return policy is not None and policy.restart_strategy == "InPlaceRestart"

    @property
    def with_current_replicas(self) -> "JobSet":
        """The JobSet whose `replicas` are the numbers of Jobs with which it runs now.

        An elastic ReplicatedJob may run with fewer Jobs than `replicas` (`status.reducedReplicas`).
        """
        if not self.status.reduced_replicas:
            return self
        reduced_sizes = {entry.name: entry.replicas for entry in self.status.reduced_replicas}
        rjobs = tuple(
            msgspec.structs.replace(rjob, replicas=reduced_sizes[rjob.name])
            if reduced_sizes.get(rjob.name, rjob.replicas) < rjob.replicas
            else rjob
            for rjob in self.spec.replicated_jobs
        )
        return msgspec.structs.replace(self, spec=msgspec.structs.replace(self.spec, replicated_jobs=rjobs))

    @property
    def dns_enabled(self) -> bool:
        """Whether the set has a headless Service: `network` is set, and `enableDNSHostnames` is true."""
        return self.spec.network is not None and bool(self.spec.network.enable_dns_hostnames)

"""Builds the JSON bodies of the children of a JobSet: Jobs, the Service and volume claims. Pure.

docs/reference/names-and-labels.md describes these bodies. The controller, dry runs of admission and offline tools get
the same bodies for the same JobSet. A body shares parts with the templates of the JobSet, so callers must not edit it.
"""

from typing import NamedTuple

from api import elastic, keys
from api.elastic_variables import with_replicas_variables
from api.exclusive import priority_label
from api.exit_codes import job_spec_with
from api.features import DEFAULT_GATES, FeatureGates
from api.jobset import JobSet, ReplicatedJob, VolumeClaimPolicy
from api.layout import JobPosition, JobRange, Layout
from api.names import coordinator_endpoint, job_key, namespaced_job, subdomain, volume_claim_name
from api.priority import Priorities
from api.restart_agent import with_agent
from api.suspension import leaves_suspension_to_others
from kube.model.meta import JSON

NO_UID = "00000000-0000-0000-0000-000000000000"
"""Stands for the UID of a JobSet that is not stored yet, since an owner reference must have a UID."""


def owner_reference(js: JobSet) -> JSON:
    """The owner reference to the JobSet (docs/reference/names-and-labels.md#owner-references)."""
    return {
        "apiVersion": keys.API_VERSION,
        "kind": keys.KIND,
        "name": js.metadata.name,
        "uid": js.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def job_labels(
    js: JobSet, jobs: JobRange, position: JobPosition, *, global_replicas: int, job_restart_attempt: int | None
) -> dict[str, str]:
    """The labels of a Job and its pods, which are also their annotations.

    See docs/reference/names-and-labels.md#labels-and-annotations. `position`: the Job. `jobs`: all Jobs of its
    ReplicatedJob. `global_replicas`: the number of all Jobs of the JobSet. `job_restart_attempt`: how often the Job
    was restarted alone; None: the label is absent.
    """
    rjob = position.replicated_job
    labels = {
        keys.JOBSET_NAME: js.metadata.name,
        keys.JOBSET_UID: js.metadata.uid,
        keys.REPLICATED_JOB_NAME: rjob.name,
        keys.RESTART_ATTEMPT: str(js.status.restarts),
        keys.REPLICATED_JOB_REPLICAS: str(rjob.replicas),
        keys.GLOBAL_REPLICAS: str(global_replicas),
        keys.JOB_INDEX: str(position.job_index),
        keys.JOB_KEY: job_key(js.metadata.namespace, position.name),
        keys.JOB_GLOBAL_INDEX: str(position.global_index),
        keys.GROUP_NAME: rjob.group_name,
        keys.GROUP_REPLICAS: str(jobs.group_replicas),
        keys.JOB_GROUP_INDEX: str(position.group_index),
    }
    if job_restart_attempt is not None:
        labels[keys.JOB_RESTART_ATTEMPT] = str(job_restart_attempt)
    endpoint = coordinator_endpoint(js)
    if endpoint is not None:
        labels[keys.COORDINATOR] = endpoint
    return labels


def placement_annotations(js: JobSet, rjob: ReplicatedJob) -> dict[str, str]:
    """The annotations of a ReplicatedJob about exclusive placement, by which each Job has a topology domain for itself.

    See docs/reference/names-and-labels.md#annotations-alone. Annotations of the ReplicatedJob take precedence over
    those of the JobSet. The annotation for the node-selector strategy counts only if the same object also has the
    annotation for exclusive placement.
    """
    placement: dict[str, str] = {}
    for annotations in (js.metadata.annotations, rjob.annotations):
        if keys.EXCLUSIVE_TOPOLOGY in annotations:
            both_keys = (keys.EXCLUSIVE_TOPOLOGY, keys.NODE_SELECTOR_STRATEGY)
            placement.update({key: annotations[key] for key in both_keys if key in annotations})
    return placement


def affinity_topology(js: JobSet, rjob: ReplicatedJob) -> str | None:
    """The key of the topology label if affinity places the Jobs of a ReplicatedJob exclusively; else None.

    The annotation with the key may also be on the pod template. The annotation for the node-selector strategy may not.
    """
    placement = placement_annotations(js, rjob)
    if keys.NODE_SELECTOR_STRATEGY in placement:
        return None
    return (rjob.pod_annotations | placement).get(keys.EXCLUSIVE_TOPOLOGY)


class Counters(NamedTuple):
    """Counters for labels and annotations of a Job; None: no counter is given.

    `job_restarts`: how often the Job was restarted alone. `execution_attempts`: how often the JobSet has been started.
    """

    job_restarts: int | None = None
    execution_attempts: int | None = None


NO_COUNTERS = Counters()


def build_job(
    js: JobSet,
    layout: Layout,
    jobs: JobRange,
    position: JobPosition,
    *,
    gates: FeatureGates = DEFAULT_GATES,
    counters: Counters = NO_COUNTERS,
) -> JSON:
    """The body of one Job (docs/reference/names-and-labels.md#jobs).

    `layout`, `jobs`, `position`: all Jobs of the JobSet, the Jobs of the ReplicatedJob, and the Job itself. Without
    `counters`, the Job is one of a new JobSet. With the gate RestartJob off, a given count of restarts is kept.
    """
    restarts, attempt = counters
    if gates["RestartJob"] and restarts is None:
        restarts = 0
    if attempt is None and not js.spec.suspend:
        attempt = 0
    rjob = position.replicated_job
    labels = job_labels(js, jobs, position, global_replicas=layout.global_replicas, job_restart_attempt=restarts)
    annotations = {**labels, **placement_annotations(js, rjob)}
    if gates["ExecutionAttemptsTracking"] and attempt is not None:
        annotations[keys.EXECUTION_ATTEMPT] = str(attempt)
    template = pod_template(js, position, labels, annotations)
    if rjob.elastic is not None and gates[elastic.GATE]:
        spec = with_replicas_variables(rjob, template["spec"], layout.names_reading_node_count)
        template = {**template, "spec": spec}
    template_meta: JSON = rjob.template.get("metadata") or {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": position.name,
            "namespace": js.metadata.namespace,
            "labels": {**(template_meta.get("labels") or {}), **labels},
            "annotations": {**(template_meta.get("annotations") or {}), **annotations},
            "ownerReferences": [owner_reference(js)],
        },
        "spec": {
            **job_spec_with(rjob.job_spec, rjob.exit_code_policy),
            "suspend": _is_suspended(js, rjob, gates),
            "template": template,
        },
    }


def _is_suspended(js: JobSet, rjob: ReplicatedJob, gates: FeatureGates) -> bool:
    """Whether a new Job is suspended. If another controller resumes the Jobs one by one, the template decides."""
    return bool(js.spec.suspend) or (leaves_suspension_to_others(js, gates) and rjob.job_spec.get("suspend") is True)


def job_in_group(job: JSON, template: str, name: str) -> JSON:
    """The Job with pods that are members of the PodGroup `name`.

    `template`: the name of the template in the Workload from which the PodGroup was made (`api.gangs`).
    """
    meta, spec = job["metadata"], job["spec"]
    pod_template = spec["template"]
    return {
        **job,
        "metadata": {**meta, "annotations": {**meta["annotations"], keys.GROUP_TEMPLATE: template}},
        "spec": {
            **spec,
            "template": {**pod_template, "spec": {**pod_template["spec"], "schedulingGroup": {"podGroupName": name}}},
        },
    }


def with_priority(job: JSON, priorities: Priorities) -> JSON:
    """The Job whose pod template has a label with the priority of the pods.

    Exclusive placement keeps Jobs with the same label apart. With the node-selector strategy, there is no such label.
    """
    template = job["spec"]["template"]
    priority = priorities.priority_of(template["spec"])
    if priority is None or keys.NODE_SELECTOR_STRATEGY in template["metadata"]["annotations"]:
        return job
    return with_pod_label(job, keys.PRIORITY, priority_label(priority))


def with_pod_label(job: JSON, key: str, value: str) -> JSON:
    """The Job with one more label in its pod template."""
    template = job["spec"]["template"]
    meta = template["metadata"]
    meta = {**meta, "labels": {**meta["labels"], key: value}}
    return {**job, "spec": {**job["spec"], "template": {**template, "metadata": meta}}}


def built_pod_spec(js: JobSet, rjob: ReplicatedJob) -> JSON:
    """The pod spec of the template of a ReplicatedJob, with the subdomain, volumes and agent that the JobSet adds.

    Added items of a list follow the template's own items. Rules of JobSetPolicies check this spec. Later, `build_job`
    adds what depends on feature gates or on other ReplicatedJobs.
    """
    spec: JSON = rjob.pod_spec
    if js.dns_enabled:
        spec = {**spec, "subdomain": subdomain(js)}
    volumes = _claim_volumes(js, spec)
    if volumes:
        spec = {**spec, "volumes": [*(spec.get("volumes") or []), *volumes]}
    return with_agent(js, rjob, spec)


def pod_template(js: JobSet, position: JobPosition, labels: dict[str, str], annotations: dict[str, str]) -> JSON:
    """The pod template of one Job: the user's template with what the JobSet adds to it."""
    template: JSON = position.replicated_job.job_spec.get("template") or {}
    meta: JSON = template.get("metadata") or {}
    spec = built_pod_spec(js, position.replicated_job)
    if keys.NODE_SELECTOR_STRATEGY in annotations:
        node_label = namespaced_job(js.metadata.namespace, position.name)
        toleration = {"key": keys.NO_SCHEDULE_TAINT, "operator": "Exists", "effect": "NoSchedule"}
        selector = {**(spec.get("nodeSelector") or {}), keys.NAMESPACED_JOB: node_label}
        spec = {**spec, "nodeSelector": selector, "tolerations": [*(spec.get("tolerations") or []), toleration]}
    return {
        **template,
        "metadata": {
            **meta,
            "labels": {**(meta.get("labels") or {}), **labels},
            "annotations": {**(meta.get("annotations") or {}), **annotations},
        },
        "spec": spec,
    }


def mounted_names(pod_spec: JSON) -> set[str]:
    """The names of the volumes that a container or init container mounts."""
    containers = [*(pod_spec.get("containers") or []), *(pod_spec.get("initContainers") or [])]
    return {mount["name"] for container in containers for mount in container.get("volumeMounts") or []}


def _claim_volumes(js: JobSet, pod_spec: JSON) -> list[JSON]:
    mounted = mounted_names(pod_spec) if js.spec.volume_claim_policies else set()
    return [
        {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": volume_claim_name(template["metadata"]["name"], js.metadata.name)},
        }
        for policy in js.spec.volume_claim_policies
        for template in policy.templates
        if template["metadata"]["name"] in mounted
    ]


def build_service(js: JobSet) -> JSON:
    """The body of the headless Service, for DNS names of pods (docs/reference/names-and-labels.md#headless-service)."""
    network = js.spec.network
    publish = network is None or network.publish_not_ready_addresses is not False
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": subdomain(js),
            "namespace": js.metadata.namespace,
            "ownerReferences": [owner_reference(js)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": {keys.JOBSET_NAME: js.metadata.name},
            "publishNotReadyAddresses": publish,
        },
    }


def build_volume_claim(js: JobSet, policy: VolumeClaimPolicy, template: JSON) -> JSON:
    """The body of one volume claim (docs/reference/names-and-labels.md#volume-claims).

    A retained claim has no owner, so that it outlives the JobSet.
    """
    source: JSON = template["metadata"]
    meta: JSON = {
        "name": volume_claim_name(source["name"], js.metadata.name),
        "namespace": js.metadata.namespace,
        "labels": {**(source.get("labels") or {}), keys.JOBSET_NAME: js.metadata.name},
    }
    if source.get("annotations"):
        meta["annotations"] = source["annotations"]
    if policy.retention_policy is None or policy.retention_policy.when_deleted != "Retain":
        meta["ownerReferences"] = [owner_reference(js)]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": template.get("spec") or {},
    }

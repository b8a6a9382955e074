"""Exclusive placement: its annotations, and the levels (JobSet, Job template, pod template) that have them.

See docs/reference/validation.md#exclusive-placement.

The controller puts the annotations of the JobSet and of the Job template on the pods, which have the annotations of the
pod template anyway. The node-selector annotation counts for the controller only beside an exclusive-topology annotation
on the same level.
"""

from collections.abc import Iterator

from api.children import placement_annotations
from api.exclusive import EXCLUDED_NAMESPACES
from api.keys import EXCLUSIVE_TOPOLOGY, NODE_SELECTOR_STRATEGY
from api.names import namespaced_job
from kube.model.field import FieldError, Path
from kube.model.validation import MAX_LABEL, byte_length, qualified_name
from webhooks.jobset.rules import Source
from webhooks.jobset.rules.names import longest_job_name
from webhooks.jobset.subject import Entry, Subject

_ANNOTATIONS = Path(("metadata", "annotations"))

_INDEX_RULES = Source("docs/reference/validation.md#exclusive-placement, defect 7")
_STRATEGY_RULES = Source("docs/reference/validation.md#exclusive-placement, defect 31")
NON_INDEXED = _INDEX_RULES.error(
    "exclusive-non-indexed",
    "exclusive placement by {topology} needs Indexed Jobs: without an index no pod leads and none is created",
    "set completionMode: Indexed and completions, or remove the annotation {key}",
)
NON_INDEXED_EMPTY = _INDEX_RULES.warning(
    "exclusive-non-indexed-empty",
    "with more replicas than 0 its Jobs get no pods",
    "set Indexed: placement is exclusive",
)
TOPOLOGY_KEY = Source("docs/reference/validation.md#exclusive-placement").error(
    "exclusive-topology-key",
    "must be the key of a node label: {complaint}",
    "name the label whose values are the domains, such as cloud.google.com/gke-nodepool or kubernetes.io/hostname",
)
POD_TEMPLATE = Source("docs/reference/validation.md#exclusive-placement, defect 37").error(
    "exclusive-pod-template-node-selector",
    "on the pod template the node-selector strategy does not work: nothing gives the pods their node selector",
    "move both annotations to the JobSet's or the Job template's metadata",
)
SELECTOR_LENGTH = Source("docs/reference/validation.md#exclusive-placement, defect 22").error(
    "node-selector-value-length",
    "the node label value <namespace>_<job> of the node-selector strategy would exceed 63 bytes",
    'shorten the names in "{value}" by {excess}',
)
STRATEGY_WITHOUT_TOPOLOGY = _STRATEGY_RULES.warning(
    "node-selector-level",
    "no effect without exclusive-topology beside it",
    "put both on one level",
)
MIXED = _STRATEGY_RULES.error(
    "exclusive-mixed-strategies",
    "the strategies do not mix: another level asks for exclusive placement by {topology}, which is by affinity",
    "put both annotations on one level to have the node-selector strategy, or remove this one to go by affinity",
)
WITHOUT_WEBHOOKS = Source("manifests/README.md").warning(
    "exclusive-namespace",
    "pods in {namespace} reach no webhook: no Job gets a domain of its own",
    "use another namespace",
)


def check_jobset(subject: Subject) -> Iterator[FieldError]:
    """Check the placement annotations of the JobSet itself."""
    annotations, namespace = subject.js.metadata.annotations, subject.js.metadata.namespace
    topology = next((key for key in subject.topologies if key is not None), None)
    if EXCLUSIVE_TOPOLOGY in annotations:
        yield from _check_topology(_ANNOTATIONS, annotations)
    elif NODE_SELECTOR_STRATEGY in annotations:
        yield _strategy_without_topology(_ANNOTATIONS, annotations, topology)
    if topology is not None and namespace in EXCLUDED_NAMESPACES:
        yield WITHOUT_WEBHOOKS.at(Path(("metadata", "namespace")), namespace=namespace)


def check_replicated_job(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    """Check the placement of one ReplicatedJob, by the annotations of all three levels."""
    job_annotations = entry.template.metadata.annotations
    job_path = entry.path.at("template").at(*_ANNOTATIONS.parts)
    topology = subject.topologies[entry.index]
    if EXCLUSIVE_TOPOLOGY in job_annotations:
        yield from _check_topology(job_path, job_annotations)
    elif NODE_SELECTOR_STRATEGY in job_annotations:
        yield _strategy_without_topology(job_path, job_annotations, topology)
    if NODE_SELECTOR_STRATEGY in placement_annotations(subject.js, entry.rjob):
        yield from _check_selector_value(subject, entry)
    else:
        yield from _check_pod_template(subject, entry, topology)
        pod_annotations, is_indexed = entry.job.template.metadata.annotations, entry.job.completion_mode == "Indexed"
        if topology is not None and not is_indexed and NODE_SELECTOR_STRATEGY not in pod_annotations:
            path = entry.job_path.at("completionMode")
            rule = NON_INDEXED if entry.rjob.replicas else NON_INDEXED_EMPTY
            yield rule.at(path, entry.job.completion_mode, topology=topology, key=EXCLUSIVE_TOPOLOGY)


def _strategy_without_topology(path: Path, annotations: dict[str, str], topology: str | None) -> FieldError:
    """The finding about a node-selector annotation without a topology on its level."""
    strategy_path = path.at(NODE_SELECTOR_STRATEGY)
    return (
        STRATEGY_WITHOUT_TOPOLOGY.at(strategy_path)
        if topology is None
        else MIXED.at(strategy_path, annotations[NODE_SELECTOR_STRATEGY], topology=topology)
    )


def _check_pod_template(subject: Subject, entry: Entry, topology: str | None) -> Iterator[FieldError]:
    """Check the placement annotations of a pod template, if the node-selector strategy is not in force."""
    pod_annotations, path = entry.job.template.metadata.annotations, entry.pod_path.at(*_ANNOTATIONS.parts)
    if EXCLUSIVE_TOPOLOGY in pod_annotations and NODE_SELECTOR_STRATEGY in pod_annotations:
        yield POD_TEMPLATE.at(path.at(NODE_SELECTOR_STRATEGY), pod_annotations[NODE_SELECTOR_STRATEGY])
    elif NODE_SELECTOR_STRATEGY in pod_annotations:
        yield _strategy_without_topology(path, pod_annotations, topology)
    elif EXCLUSIVE_TOPOLOGY in pod_annotations and EXCLUSIVE_TOPOLOGY not in placement_annotations(
        subject.js, entry.rjob
    ):
        yield from _check_topology(path, pod_annotations)


def _check_topology(path: Path, annotations: dict[str, str]) -> Iterator[FieldError]:
    topology = annotations[EXCLUSIVE_TOPOLOGY]
    for complaint in qualified_name(topology):
        yield TOPOLOGY_KEY.at(path.at(EXCLUSIVE_TOPOLOGY), topology, complaint=complaint)


def _check_selector_value(subject: Subject, entry: Entry) -> Iterator[FieldError]:
    value = namespaced_job(subject.js.metadata.namespace or "default", longest_job_name(subject, entry))
    excess = byte_length(value) - MAX_LABEL
    if entry.rjob.replicas and excess > 0:
        yield SELECTOR_LENGTH.at(entry.path.at("name"), entry.rjob.name, value=value, excess=excess)

"""Rules of policies about priorities and exclusive placement. Pure."""

from collections.abc import Iterator
from typing import Annotated

from api import keys
from kube.model.field import ErrorType, FieldError, Path
from kube.model.meta import Base, doc
from kube.model.validation import dns1123_subdomain
from policy.cel import Cel, CelPath, Root, Writer, cel_path, concat_lists, list_if, pod_path, template_path, text, texts
from policy.fields import Key, Name, list_of
from policy.judged import METADATA, JudgedJobSet, Namespace, Template
from policy.rule import PolicyRule, check_allowed, findings_only, job_fields, not_allowed, pod_fields
from policy.sentences import caution, sentence


class PriorityClasses(Base, frozen=True, kw_only=True):
    """Priority classes that pods may name."""

    allowed: Annotated[tuple[Name, ...], list_of("Names of PriorityClasses.")]
    required: Annotated[bool, doc("Pods have to name one. Else those without one pass.")] = False


NO_PRIORITY = sentence("priorityClasses", ErrorType.REQUIRED, "", "name one of {allowed}", "missing")
PRIORITY = sentence("priorityClasses", ErrorType.NOT_SUPPORTED, "this priority class is not allowed", "{allowed}")
NO_CLASS = caution(
    "no-priority-class", "no PriorityClass can have this name: {complaint}", "correct it", "priority-classes"
)


def _cautions(rule: PriorityClasses, path: Path) -> Iterator[FieldError]:
    for i, name in enumerate(rule.allowed):
        for complaint in dns1123_subdomain(name):
            yield NO_CLASS.at(path.at("allowed", i), name, complaint=complaint)


def find_priority_classes(rule: PriorityClasses, judged: JudgedJobSet, _: Namespace) -> Iterator[FieldError]:
    """Pods may name only certain priority classes.

    Pods without a priority class get the default of the cluster, and pass. With `required`, pods have to name a class.
    """
    for template in judged.templates:
        name, path = template.pod.get("priorityClassName"), template.at("priorityClassName")
        if name:
            yield from check_allowed(PRIORITY, path, name, rule.allowed)
        elif rule.required:
            yield NO_PRIORITY.at(path, allowed=lambda: ", ".join(rule.allowed))


# In the CEL of this file, `i` is the index of a ReplicatedJob, `j` the ReplicatedJob, and `p` its pod spec.
@findings_only
def compile_priority_classes(rule: PriorityClasses, writer: Writer, root: Root) -> Cel:
    name = "string(p.?priorityClassName.orValue(''))"
    at = pod_path("i", ".priorityClassName")
    other_class = not_allowed(PRIORITY, at, name, rule.allowed, writer)
    missing = writer.at(NO_PRIORITY, *at, allowed=", ".join(rule.allowed))
    is_wrong = f"{name} != '' && !({name} in {texts(rule.allowed)})"
    lists = [Cel(f"{root.variable('changedPods')}.transformList(i, p, {is_wrong}, {other_class})")]
    if rule.required:
        lists.append(Cel(f"{root.variable('changedPods')}.transformList(i, p, {name} == '', {missing})"))
    return concat_lists(*lists)


class ExclusiveTopologies(Base, frozen=True, kw_only=True):
    """Topologies for exclusive placement."""

    allowed: Annotated[tuple[Key, ...] | None, list_of("Labels of nodes that may be used. Absent: all.")] = None
    required: Annotated[bool, doc("Every ReplicatedJob has to use exclusive placement.")] = False


NO_TOPOLOGY = sentence(
    "exclusiveTopologies", ErrorType.REQUIRED, "", "name the node label of a topology: {allowed}", "missing"
)
TOPOLOGY = sentence("exclusiveTopologies", ErrorType.NOT_SUPPORTED, "this topology is not allowed", "{allowed}")


def find_exclusive_topologies(rule: ExclusiveTopologies, judged: JudgedJobSet, _: Namespace) -> Iterator[FieldError]:
    """Exclusive placement may use only certain topologies, or has to be used.

    The annotation `alpha.jobset.sigs.k8s.io/exclusive-topology` names the topology. It counts on the Job template, else
    on the JobSet, else on the pod template. With `required`, every ReplicatedJob needs a topology.
    """
    checked_paths: set[Path] = set()
    for template in judged.templates:
        topology, metadata_path = _topology(judged, template)
        path = metadata_path.at("annotations", keys.EXCLUSIVE_TOPOLOGY)
        if path in checked_paths:
            continue
        checked_paths.add(path)
        if topology:
            yield from check_allowed(TOPOLOGY, path, topology, rule.allowed)
        elif rule.required:
            yield NO_TOPOLOGY.at(path, allowed=lambda: ", ".join(rule.allowed or ()) or "any")


def _topology(judged: JudgedJobSet, template: Template) -> tuple[str, Path]:
    """The topology for the pods of a template, and the path of the metadata with the annotation.

    Without the annotation, they are an empty text and the path of the metadata of the Job template.
    """
    job_metadata_path = template.path.at("template", "metadata")
    pod_metadata_path = template.job_path.at("template", "metadata")
    key = keys.EXCLUSIVE_TOPOLOGY
    for annotations, path in (
        (template.rjob.annotations, job_metadata_path),
        (judged.js.metadata.annotations, METADATA),
        (template.rjob.pod_annotations, pod_metadata_path),
    ):
        if key in annotations:
            return annotations[key], path
    return "", job_metadata_path


_TOPOLOGY_FIELDS = (
    "metadata.annotations{}",
    "spec.replicatedJobs[].template.metadata.annotations{}",
    *job_fields("template.metadata.annotations{}"),
)
_ANNOTATION = text(keys.EXCLUSIVE_TOPOLOGY)


@findings_only
def compile_exclusive_topologies(rule: ExclusiveTopologies, writer: Writer, root: Root) -> Cel:
    job_annotation = f"j.?template.?metadata.?annotations[?{_ANNOTATION}]"
    pod_annotation = f"j.?template.?spec.?template.?metadata.?annotations[?{_ANNOTATION}]"
    at_job = template_path("i", f".template.metadata.annotations[{keys.EXCLUSIVE_TOPOLOGY}]")
    at_pod = template_path("i", f".template.spec.template.metadata.annotations[{keys.EXCLUSIVE_TOPOLOGY}]")
    at_set = cel_path(str(METADATA.at("annotations", keys.EXCLUSIVE_TOPOLOGY)))

    def topology_findings(value: str, at: CelPath) -> Cel:
        """An expression for the findings about the topology `value` at a path."""
        lists = []
        if rule.allowed is not None:
            finding = not_allowed(TOPOLOGY, at, f"string({value})", rule.allowed, writer)
            lists.append(list_if(f"{value} != '' && !({value} in {texts(rule.allowed)})", finding))
        if rule.required:
            missing = writer.at(NO_TOPOLOGY, *at, allowed=", ".join(rule.allowed or ()) or "any")
            lists.append(list_if(f"{value} == ''", missing))
        return concat_lists(*lists)

    jobs, set_annotation = root.variable("jobs"), f"{root.variable('annotations')}[?{_ANNOTATION}]"
    job_findings = topology_findings(f"{job_annotation}.orValue('')", at_job)
    by_job_templates = f"{jobs}.transformList(i, j, {job_annotation}.hasValue(), {job_findings}).flatten()"
    a_job_lacks_it = f"{jobs}.exists(j, !{job_annotation}.hasValue())"
    set_findings = topology_findings(f"{set_annotation}.orValue('')", at_set)
    by_set = f"({set_annotation}.hasValue() && {a_job_lacks_it} ? {set_findings} : [])"
    pod_findings = topology_findings(f"{pod_annotation}.orValue('')", at_pod)
    findings_without_annotation = topology_findings("''", at_job)
    by_pod_templates = (
        f"({set_annotation}.hasValue() ? [] : {jobs}.transformList(i, j, !{job_annotation}.hasValue(),"
        f" {pod_annotation}.hasValue() ? {pod_findings} : {findings_without_annotation}).flatten())"
    )
    return concat_lists(Cel(by_job_templates), Cel(by_set), Cel(by_pod_templates))


PriorityClassesRule = Annotated[
    PriorityClasses | None,
    doc("priorityClassName of pods."),
    PolicyRule(
        "priorityClasses",
        (NO_PRIORITY, PRIORITY),
        find_priority_classes,
        compile_priority_classes,
        reads=pod_fields("priorityClassName"),
        cautions=_cautions,
    ),
]
ExclusiveTopologiesRule = Annotated[
    ExclusiveTopologies | None,
    doc("Exclusive placement."),
    PolicyRule(
        "exclusiveTopologies",
        (NO_TOPOLOGY, TOPOLOGY),
        find_exclusive_topologies,
        compile_exclusive_topologies,
        reads=_TOPOLOGY_FIELDS,
    ),
]

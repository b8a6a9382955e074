"""Finds why no node takes a pod: nodes lack something, do not declare a feature, or are in use by JobSets. Pure."""

from collections import defaultdict
from dataclasses import replace

from api import keys
from api.jobset import JobSet
from api.node_offers import format_amount, format_number
from diagnose.case import Case
from diagnose.facts import SeenPod
from diagnose.finding import Finding, Level
from diagnose.fixes import recreation_command
from diagnose.nodes import Nodes, shape_of
from diagnose.wording import MISFIT, MISSING_FEATURE, insufficient
from kube.model.field import join_names
from kube.model.requests import Amount


def misfit_finding(case: Case, pod: SeenPod, *, in_group: bool = False) -> Finding | None:
    """The finding about a requirement of the pod that the nodes do not meet.

    None if the scheduler has another reason, or the nodes are not known. `in_group`: the pod belongs to a group, so the
    scheduler may only report that the group does not fit.
    """
    condition, nodes = pod.scheduling_failure, case.facts.node_offers
    if (problem := _undeclared_feature(case, pod)) is not None:
        return problem
    if condition is None or nodes is None or not (in_group or MISFIT.search(condition.message)):
        return None
    finding = nodes.why_unscheduled(pod.spec, recreation_command(case.facts.jobset, "{old}", "{new}"))
    if finding is None or finding.level is Level.FAULT:
        return finding
    is_insufficient = "Insufficient" in condition.message
    if not is_insufficient and not in_group:
        return None
    return (
        case.shortage
        or _too_many_pods(case, pod, nodes)
        or (_with_largest_users(case, pod, finding) if is_insufficient else None)
    )


def _too_many_pods(case: Case, pod: SeenPod, nodes: Nodes) -> Finding | None:
    """The finding that the pods of its ReplicatedJob do not all fit on the nodes at once; None if they fit."""
    children = (child for child in case.survey.unready_jobs if child.job.metadata.uid == pod.job_uid)
    rjob = next((child.replicated_job for child in children), None)
    if rjob is None:
        return None
    jobs = (job for job in case.facts.jobs or () if job.metadata.labels.get(keys.REPLICATED_JOB_NAME) == rjob)
    return nodes.too_many_pods(pod.spec, case.survey.pods_at_once[rjob], sum(job.status.ready or 0 for job in jobs))


def _undeclared_feature(case: Case, pod: SeenPod) -> Finding | None:
    """The finding about a feature that the pod needs and no node declares; None if the scheduler has another reason."""
    condition, nodes = pod.scheduling_failure, case.facts.node_offers
    if condition is None or not MISSING_FEATURE.search(condition.message):
        return None
    for feature, field in pod.spec.needed_features.items():
        if nodes is None or not nodes.has_feature(feature):
            subject = "no node declares" if nodes is not None else "nodes that it may use do not declare"
            message = f"{subject} the feature {feature}, which it needs for {field}"
            fix = _feature_fix(case.facts.jobset, field)
            return Finding(Level.FAULT, "no-such-feature", message, fix=fix)
    return None


def _feature_fix(js: JobSet, field: str) -> str:
    nodes = (
        "have an administrator of the cluster add nodes with a newer kubelet (kubectl get nodes -o custom-columns="
        "'NODE:.metadata.name,VERSION:.status.nodeInfo.kubeletVersion,FEATURES:.status.declaredFeatures' shows what"
        " they declare)"
    )
    if js.restarts_in_place and "RestartAllContainers" in field:
        return f"write failurePolicy.agent.mode: MainContainer in a new JobSet, which needs no such feature; or {nodes}"
    return f"do without {field} in a new JobSet, or {nodes}"


def _with_largest_users(case: Case, pod: SeenPod, finding: Finding) -> Finding:
    """The finding that nodes are in use, with the JobSets that use most of the resource that is short."""
    nodes, resource = case.facts.node_offers, lacking_resource(pod)
    if nodes is None or not resource:
        return finding
    key = shape_of(pod.spec), resource
    if key not in case.usage_findings:
        case.usage_findings[key] = _add_largest_users(case, nodes, pod, resource, finding)
    return case.usage_findings[key]


def _add_largest_users(case: Case, nodes: Nodes, pod: SeenPod, resource: str, finding: Finding) -> Finding:
    node_names, own_meta = nodes.fitting_nodes(pod.spec), case.facts.jobset.metadata
    amounts = defaultdict[str, Amount](int)
    for placed in case.facts.placed_pods or ():
        if placed.spec.node_name in node_names and (amount := placed.spec.requests().get(resource)):
            jobset = placed.metadata.namespace, placed.metadata.labels.jobset
            amounts["this JobSet" if jobset == (own_meta.namespace, own_meta.name) else "/".join(jobset)] += amount
    if not amounts:
        return finding
    largest_first = sorted(amounts.items(), key=lambda item: (-item[1], item[0]))
    shares = join_names([f"{name} ({format_number(amount, resource)})" for name, amount in largest_first], 3)
    total = format_number(sum(amounts.values()), resource)
    offered = format_amount(nodes.offered_amount(pod.spec, resource), resource)
    return replace(finding, message=f"{finding.message}; JobSets hold {total} of their {offered}: {shares}")


def lacking_resource(pod: SeenPod) -> str:
    """The requested resource that most nodes have too little of, by the scheduler's message; empty without one."""
    condition, needs = pod.scheduling_failure, pod.spec.requests()
    shortages = insufficient(condition.message) if condition is not None else []
    # Of two resources that as many nodes lack, a device counts, whose name has a prefix.
    ranked = ((node_count, "/" in name, name) for node_count, name in shortages if name in needs)
    return max(ranked, default=(0, False, ""))[2]

"""Which Jobs hold the domains of exclusive placement that a leader waits for. Pure.

A domain is all nodes with one value of the topology label. A Job with exclusive placement has a domain for itself. Its
leader, the pod with index 0, gets the domain first.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from diagnose.case import Case
from diagnose.facts import SeenPod
from diagnose.finding import Finding, Level, pluralize
from diagnose.taints import taint_counts_text, taint_fix
from diagnose.wording import ANTI_AFFINITY
from kube.model.field import join_names

KEPT_OUT = "kept-out"
"""The cause of findings about exclusive Jobs that keep other pods out of their domains."""
GUIDE = "docs/concepts/exclusive-placement.md"
_NOUNS = {"kubernetes.io/hostname": "node"}
_PLURAL = re.compile(r"[^aisu]s$")


def domain_word(topology: str) -> str:
    """The noun for a domain, such as "rack": the last part of the label's key, in the singular."""
    last_part = topology.rpartition("/")[2]
    return _NOUNS.get(topology) or (last_part[:-1] if _PLURAL.search(last_part) else last_part)


def article(domain_noun: str) -> str:
    return "an" if domain_noun[:1].lower() in "aeiou" else "a"


def domain_of_job(pods: Iterable[SeenPod], topology: str) -> str:
    """The domain that followers are sent to, as in `rack r3, where its Job is`; empty if no pod has a domain."""
    domains = (pod.spec.node_selector.get(topology) for pod in pods if not pod.metadata.leads)
    domain = next(filter(None, domains), "")
    return f"{domain_word(topology)} {domain}, where its Job is" if domain else ""


def domain_findings(case: Case, leader: SeenPod, topology: str) -> tuple[Finding, ...]:
    """Findings about how many domains there are, and which Jobs hold them, for a leader without a node."""
    nodes, domain_noun = case.facts.node_labels, domain_word(topology)
    if nodes is None:
        return (_nodes_not_listed(topology, domain_noun),)
    domain_by_node = {name: labels[topology] for name, labels in nodes.items() if topology in labels}
    if not domain_by_node:
        return (_no_domains(topology, domain_noun, len(nodes)),)
    domain_count = len(set(domain_by_node.values()))
    findings = _too_few_domains(case, topology, domain_noun, domain_count)
    if case.facts.holder_pods is None:
        message = f"there are {pluralize(domain_count, domain_noun)}; who holds them is not known"
        return (*findings, Finding(Level.NOTE, "domains", message))
    return (*findings, *_holder_findings(case, leader, domain_by_node, domain_noun))


def excluded_by_jobs(case: Case, pod: SeenPod, *, in_group: bool = False) -> Finding | None:
    """The finding about exclusive Jobs that keep a pod without exclusive placement out of their domains, if any.

    `in_group`: the pod belongs to a group. The scheduler may report only the first placement of a group, which does not
    show these Jobs. So each of these Jobs counts that is on a node with enough resources for the pod.
    """
    condition, nodes = pod.scheduling_failure, case.facts.node_offers
    is_anti_affinity = condition is not None and ANTI_AFFINITY.search(condition.message) is not None
    if condition is None or not (is_anti_affinity or (in_group and nodes is not None)):
        return None
    node_names = None if is_anti_affinity or nodes is None else nodes.fitting_nodes(pod.spec)
    priority, own_uids = pod.priority, {job.metadata.uid for job in case.facts.jobs or ()}
    equal_pods = (pod for pod in case.facts.holder_pods or () if pod.metadata.topology and pod.priority == priority)
    holder_pods = [holder for holder in equal_pods if node_names is None or holder.spec.node_name in node_names]
    if not holder_pods:
        return None
    subject = pluralize(len(holder_pods), "exclusive Job", "keeps", "keep")
    location = "its domain" if len(holder_pods) == 1 else "their domains"
    holder_labels = join_names(sorted(holder.job_label for holder in holder_pods))
    message = f"{subject} other pods of priority {priority} out of {location}: {holder_labels}"
    fix = f"give its ReplicatedJob a priorityClassName of another priority in a new JobSet ({GUIDE})"
    if own_uids.issuperset(holder.job_uid for holder in holder_pods):
        message, fix = f"{message}, all of its own JobSet", f"add nodes for it, or {fix}"
    else:
        fix = f"wait until one ends, add nodes, or {fix}"
    return Finding(Level.WAITS, KEPT_OUT, message, fix=fix)


def _nodes_not_listed(topology: str, domain_noun: str) -> Finding:
    """The finding for a user who may not list nodes."""
    fix = (
        f"jobset validate FILE --server and the warnings when a JobSet is created say if no node has the label"
        f" {topology}: correct the annotation exclusive-topology in a new JobSet; else wait until a Job ends that holds"
        f" {article(domain_noun)} {domain_noun}, or ask an administrator of the cluster"
    )
    message = f"which {domain_noun}s there are is not known: you may not list nodes"
    return Finding(Level.WAITS, "domains", message, fix=fix)


def _no_domains(topology: str, domain_noun: str, nodes: int) -> Finding:
    label = f"kubectl label node NODE {topology}=VALUE"
    fix = f"{label}, or correct the annotation exclusive-topology in a new JobSet ({GUIDE})"
    message = f"there is no {domain_noun}: none of {pluralize(nodes, 'node')} has the label {topology}"
    return Finding(Level.FAULT, "no-domains", message, fix=fix)


def _too_few_domains(case: Case, topology: str, domain_noun: str, domain_count: int) -> tuple[Finding, ...]:
    """At most one finding: the JobSet has more exclusive Jobs than there are domains, so it never runs completely."""
    jobs = (job for job in case.facts.jobs or () if job.topology == topology)
    wanted = sum(job.outcome is None for job in jobs)
    if wanted <= domain_count:
        return ()
    has = f"the cluster has {pluralize(domain_count, domain_noun)}: they never run all at once"
    fix = f"add nodes in new {domain_noun}s, or lower replicas in a new JobSet"
    message = f"this JobSet has {wanted} exclusive Jobs, {has}"
    return (Finding(Level.FAULT, "too-few-domains", message, fix=fix),)


def _holder_findings(
    case: Case, leader: SeenPod, domain_by_node: Mapping[str, str], domain_noun: str
) -> Iterator[Finding]:
    """One finding for each cause of `_HOLDER_TEXTS` for which the leader cannot have domains."""
    pods_by_domain: dict[str, list[SeenPod]] = {domain: [] for domain in sorted(set(domain_by_node.values()))}
    for pod in case.facts.holder_pods or ():
        if pod.spec.node_name in domain_by_node and pod.job_uid != leader.job_uid:
            pods_by_domain[domain_by_node[pod.spec.node_name]].append(pod)
    # For each cause, the domains with the pods that keep the leader out.
    domains_by_cause: dict[str, dict[str, Sequence[SeenPod]]] = {cause: {} for cause in _HOLDER_TEXTS}
    for domain, pods in pods_by_domain.items():
        cause, blocking_pods = _cause_of_domain(leader, pods)
        domains_by_cause[cause][domain] = blocking_pods
    for cause, domains in domains_by_cause.items():
        if not domains:
            continue
        holder_pods = [pod for pods in domains.values() for pod in pods]
        pod_by_job = {(pod.metadata.namespace, pod.job_uid or pod.name): pod for pod in holder_pods}
        holder_text, fix = _HOLDER_TEXTS[cause]
        holder_text = holder_text.format(
            domains=join_names([*domains]),
            jobs=join_names(sorted(pod.job_label for pod in pod_by_job.values())),
            priorities=", ".join(map(str, sorted({pod.priority for pod in pod_by_job.values()}))),
        )
        verb = "holds" if len(domains) == 1 else "hold"
        message = f"{len(domains)} of {pluralize(len(pods_by_domain), domain_noun)} {verb} {holder_text}"
        fix = fix.format(domain_noun=domain_noun)
        nodes = case.facts.node_offers if cause == "free" else None
        taints = {} if nodes is None else nodes.blocking_taints(leader.spec)
        taints_by_node = {name: taint for name, taint in taints.items() if domain_by_node.get(name) in domains}
        if taints_by_node:
            tainted_nodes = pluralize(len(taints_by_node), "node")
            message += f"; {tainted_nodes} there could hold it but for taints: {taint_counts_text(taints_by_node)}"
            fix = f"{taint_fix(taints_by_node)}; {fix}"
        yield Finding(Level.WAITS, cause, message, fix=fix or _preemption_fix(leader))


def _cause_of_domain(leader: SeenPod, pods: Sequence[SeenPod]) -> tuple[str, Sequence[SeenPod]]:
    """Why a domain with these pods is not free, as a key of `_HOLDER_TEXTS`, and the pods that keep the leader out."""
    if equal_pods := [pod for pod in pods if pod.priority == leader.priority]:
        return "equal-priority", equal_pods
    if higher_pods := [pod for pod in pods if pod.priority > leader.priority]:
        return "higher-priority", higher_pods
    return "lower-priority" if pods else "free", pods


_HOLDER_TEXTS = {
    "equal-priority": (
        "Jobs of equal priority ({priorities}): {jobs}",
        f"wait until one ends, add a {{domain_noun}}, or give this JobSet a higher priority ({GUIDE})",
    ),
    "higher-priority": (
        "Jobs of higher priority ({priorities}), which leave no room and are not preempted: {jobs}",
        "wait until one ends",
    ),
    "lower-priority": ("Jobs of lower priority ({priorities}): {jobs}", ""),
    "free": (
        "no other Job ({domains}): there it is something else, such as free resources, taints or cordons",
        "the scheduler's reason above counts the nodes by what is wrong with them; kubectl describe node NODE",
    ),
}
"""By cause, in the order of the findings: the text about the Jobs that hold the domains, and the fix."""


def _preemption_fix(leader: SeenPod) -> str:
    """The fix if Jobs of lower priority hold the domains: whether the scheduler preempts them."""
    if leader.spec.preemption_policy == "Never":
        return "its priority class has preemptionPolicy: Never, so they are not preempted: wait, or use another class"
    if nominated := leader.status.nominated_node_name:
        return f"nothing to do: the scheduler makes room on node {nominated}, pods there are ending"
    return "the scheduler preempts them if their nodes fit otherwise; its reason above says what else is in the way"

"""Who holds the domains that a leader waits for. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from api.exclusive import topology_of
from diagnose.case import Case
from diagnose.facts import Holder, SeenPod
from diagnose.finding import Finding, Level, join_names, pluralize
from diagnose.taints import Taint, numbers, remedy
from diagnose.wording import ANTI_AFFINITY

KEPT_OUT = "kept-out"
"""The cause of findings about exclusive Jobs that keep other pods out."""
GUIDE = "docs/concepts/exclusive-placement.md"
_WORDS = {"kubernetes.io/hostname": "node"}
_VOWELS = "aeiou"
_PLURAL = re.compile(r"[^aisu]s$")


def noun(topology: str) -> str:
    """What one domain is called: the last part of the label's key, without the s of a plural."""
    word = topology.rpartition("/")[2]
    return _WORDS.get(topology) or (word[:-1] if _PLURAL.search(word) else word)


def article(word: str) -> str:
    return "an" if word[:1].lower() in _VOWELS else "a"


def domain_of_job(pods: Iterable[SeenPod], topology: str) -> str:
    """`rack r3, where its Job is`: where a follower has been sent to; empty if these pods do not say that."""
    domains = (pod.spec.node_selector.get(topology) for pod in pods if not pod.metadata.leads)
    found = next(filter(None, domains), "")
    return f"{noun(topology)} {found}, where its Job is" if found else ""


@dataclass(slots=True)
class _Class:
    """Domains that are in the way for the same reason, of `number` in all that are called `word`."""

    number: int
    word: str
    domains: list[str] = field(default_factory=list)
    holders: dict[str, Holder] = field(default_factory=dict)

    def __str__(self) -> str:
        """`2 of 5 racks hold`: the beginning of a sentence."""
        verb = "holds" if len(self.domains) == 1 else "hold"
        return f"{len(self.domains)} of {pluralize(self.number, self.word)} {verb}"

    def add(self, domain: str, holders: Iterable[Holder]) -> None:
        self.domains.append(domain)
        self.holders |= {f"{holder.namespace}/{holder.job}/{holder.job_uid}": holder for holder in holders}

    @property
    def holder_names(self) -> str:
        return join_names(sorted(holder.label for holder in self.holders.values()))

    @property
    def priorities(self) -> str:
        return ", ".join(map(str, sorted({holder.priority for holder in self.holders.values()})))


def in_the_way(case: Case, leader: SeenPod, topology: str) -> tuple[Finding, ...]:
    """Of a leader that has no node: how many domains there are and who has them."""
    nodes, word = case.facts.nodes, noun(topology)
    if nodes is None:
        return (_nodes_not_listed(topology, word),)
    values = {name: labels[topology] for name, labels in nodes.items() if topology in labels}
    if not values:
        return (_no_domains(topology, word, len(nodes)),)
    domains = len(set(values.values()))
    findings = _too_few(case, topology, word, domains)
    if case.facts.holders is None:
        message = f"there are {pluralize(domains, word)}; who holds them is not known"
        return (*findings, Finding(Level.NOTE, "domains", message))
    return (*findings, *_classes(case, leader, values, word))


def kept_out(case: Case, pod: SeenPod, *, in_group: bool = False) -> Finding | None:
    """Which exclusive Jobs keep a pod that is not exclusive out of their domains; None if none do, or it is not known.

    `in_group`: of a pod in a group the scheduler may not say so, as it may speak of the first placement only. Then the
    Jobs count that are on nodes which could take the pod.
    """
    said, nodes = pod.scheduling_failure, case.facts.node_offers
    told = said is not None and ANTI_AFFINITY.search(said.message) is not None
    if said is None or not (told or (in_group and nodes is not None)):
        return None
    takers = None if told or nodes is None else nodes.takers(pod.spec)
    mine, own = pod.spec.priority or 0, {job.metadata.uid for job in case.facts.jobs or ()}
    there = (holder for holder in case.facts.holders or () if holder.exclusive and holder.priority == mine)
    holders = [holder for holder in there if takers is None or holder.node in takers]
    if not holders:
        return None
    jobs = pluralize(len(holders), "exclusive Job", "keeps", "keep")
    where = "its domain" if len(holders) == 1 else "their domains"
    holder_names = join_names(sorted(holder.label for holder in holders))
    message = f"{jobs} other pods of priority {mine} out of {where}: {holder_names}"
    fix = f"give its ReplicatedJob a priorityClassName of another priority in a new JobSet ({GUIDE})"
    if own.issuperset(holder.job_uid for holder in holders):
        message, fix = f"{message}, all of its own JobSet", f"add nodes for it, or {fix}"
    else:
        fix = f"wait until one ends, add nodes, or {fix}"
    return Finding(Level.WAITS, KEPT_OUT, message, fix=fix)


def _nodes_not_listed(topology: str, word: str) -> Finding:
    """For a user who may not list nodes: how to find out about the domains."""
    fix = (
        f"jobset validate FILE --server and the warnings when a JobSet is created say if no node has the label"
        f" {topology}: correct the annotation exclusive-topology in a new JobSet; else wait until a Job ends that holds"
        f" {article(word)} {word}, or ask an administrator of the cluster"
    )
    return Finding(Level.WAITS, "domains", f"which {word}s there are is not known: you may not list nodes", fix=fix)


def _no_domains(topology: str, word: str, nodes: int) -> Finding:
    label = f"kubectl label node NODE {topology}=VALUE"
    fix = f"{label}, or correct the annotation exclusive-topology in a new JobSet ({GUIDE})"
    message = f"there is no {word}: none of {pluralize(nodes, 'node')} has the label {topology}"
    return Finding(Level.FAULT, "no-domains", message, fix=fix)


def _too_few(case: Case, topology: str, word: str, domains: int) -> tuple[Finding, ...]:
    """A set that wants more domains than there are never runs whole."""
    jobs = (job for job in case.facts.jobs or () if topology_of(job.metadata.annotations) == topology)
    wanted = sum(job.outcome is None for job in jobs)
    if wanted <= domains:
        return ()
    has = f"the cluster has {pluralize(domains, word)}: they never run all at once"
    fix = f"add nodes in new {word}s, or lower replicas in a new JobSet"
    message = f"this JobSet has {wanted} exclusive Jobs, {has}"
    return (Finding(Level.FAULT, "too-few-domains", message, fix=fix),)


def _classes(case: Case, leader: SeenPod, values: Mapping[str, str], word: str) -> tuple[Finding, ...]:
    """What there is to say of the domains, by who holds them. `values`: the domain of each node."""
    held: dict[str, list[Holder]] = {value: [] for value in sorted(set(values.values()))}
    for holder in case.facts.holders or ():
        if holder.node in values and holder.job_uid != leader.job_uid:
            held[values[holder.node]].append(holder)
    mine = leader.spec.priority or 0
    equal, higher, lower, free = (_Class(len(held), word) for _ in range(4))
    for domain, there in held.items():
        same = [holder for holder in there if holder.priority == mine]
        above = [holder for holder in there if holder.priority > mine]
        if same:
            equal.add(domain, same)
        elif above:
            higher.add(domain, above)
        else:
            (lower if there else free).add(domain, there)
    nodes = case.facts.node_offers
    taints = {} if nodes is None else nodes.blocking_taints(leader.spec)
    hinders = {name: taint for name, taint in taints.items() if values.get(name) in free.domains}
    findings = (
        (equal, partial(_equal, mine, word)),
        (higher, _higher),
        (lower, partial(_lower, leader)),
        (free, partial(_free, hinders)),
    )
    return tuple(describe(found) for found, describe in findings if found.domains)


def _equal(mine: int, word: str, found: _Class) -> Finding:
    message = f"{found} Jobs of equal priority ({mine}): {found.holder_names}"
    fix = f"wait until one ends, add a {word}, or give this JobSet a higher priority ({GUIDE})"
    return Finding(Level.WAITS, "equal-priority", message, fix=fix)


def _higher(found: _Class) -> Finding:
    which = "which leave no room and are not preempted"
    message = f"{found} Jobs of higher priority ({found.priorities}), {which}: {found.holder_names}"
    return Finding(Level.WAITS, "higher-priority", message, fix="wait until one ends")


def _lower(leader: SeenPod, found: _Class) -> Finding:
    message = f"{found} Jobs of lower priority ({found.priorities}): {found.holder_names}"
    if leader.spec.preemption_policy == "Never":
        fix = "its priority class has preemptionPolicy: Never, so they are not preempted: wait, or use another class"
    elif nominated := leader.status.nominated_node_name:
        fix = f"nothing to do: the scheduler makes room on node {nominated}, pods there are ending"
    else:
        fix = "the scheduler preempts them if their nodes fit otherwise; its reason above says what else is in the way"
    return Finding(Level.WAITS, "lower-priority", message, fix=fix)


def _free(hinders: Mapping[str, Taint], found: _Class) -> Finding:
    """`hinders`: of nodes there that only a taint keeps from taking the leader, as far as they are known."""
    message = (
        f"{found} no other Job ({join_names(found.domains)}): there it is something else, such as free resources,"
        " taints or cordons"
    )
    fix = "the scheduler's reason above counts the nodes by what is wrong with them; kubectl describe node NODE"
    if hinders:
        message += f"; {pluralize(len(hinders), 'node')} there could hold it but for taints: {numbers(hinders)}"
        fix = f"{remedy(hinders)}; {fix}"
    return Finding(Level.WAITS, "free", message, fix=fix)

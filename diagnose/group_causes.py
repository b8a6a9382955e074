"""Checks of groups of `spec.scheduling`: missing groups, and groups whose pods have no nodes. Pure.

A group is a PodGroup, whose members are pods, or a CompositePodGroup, whose members are groups. kube-scheduler gives
nodes to as many members at once as the group demands. A tree is a group without a parent, with all groups below it.
"""

from collections.abc import Iterator
from functools import partial

from api import keys
from api.gang_status import INITIALLY_SCHEDULED
from api.gangs import Group
from api.stalled_trees import Tree, WaitingPod, required_members, why_stalled
from diagnose.answers import Answer, KeyedFinding, merge_findings
from diagnose.case import Case
from diagnose.claims import unbound_claim
from diagnose.domains import KEPT_OUT, domain_word, excluded_by_jobs
from diagnose.facts import SeenGroups, SeenPod
from diagnose.finding import WAIT_FOR_PODS, Finding, Level, pluralize
from diagnose.group_nodes import paths_from_root, topology_keys, why_tree_never_fits
from diagnose.misfits import misfit_finding
from diagnose.pod_causes import pods_are
from diagnose.survey import missing_pods
from diagnose.wording import NO_PLACEMENT, is_about_group, shortfall, without_repetition
from kube.model.field import join_names
from kube.model.meta import Condition, find

_FIXES_BY_REASON = {  # of the condition GroupsReady
    "WaitingForOldGroups": WAIT_FOR_PODS,
    "NameConflict": "delete that object, or recreate the JobSet under another name: the manager tries again by itself",
    "Discovering": "look again in a moment",
    "FeatureGateDisabled": "restart the manager with the feature gate, or leave spec.scheduling out",
}
_DEFAULT_FIX = (
    "the manager looks again every 15 s and goes on by itself; to run without groups, leave spec.scheduling out"
)
_USER_FAULTS = {"FeatureGateDisabled", "APIUnavailable", "CompositePodGroupUnavailable", "FieldDropped", "NameConflict"}


def missing_groups(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Finds that Jobs wait for groups, which cannot be created, or replace groups that have to be deleted first."""
    condition = find(case.facts.jobset.status.conditions, keys.GROUPS_READY)
    if case.facts.jobs is None or condition is None or condition.status != "False" or condition.reason == "Suspended":
        return
    message = f"the groups that spec.scheduling asks for are not there: {condition.reason}: {condition.message}"
    level, fix, waiting_jobs = Level.NOTE, "", frozenset[str]()
    if not _has_jobs_without_groups(case):
        level = Level.FAULT if condition.reason in _USER_FAULTS else Level.WAITS
        fix = _FIXES_BY_REASON.get(condition.reason, _DEFAULT_FIX)
        waiting_jobs = unexplained_jobs & _unstarted_jobs(case)
    finding = Finding(level, "groups-not-ready", message, fix=fix, since=condition.last_transition_time)
    yield Answer(finding, waiting_jobs)


def _has_jobs_without_groups(case: Case) -> bool:
    """Whether Jobs run without their groups because scheduling.whenUnavailable is or was Ignore."""
    trees = case.forest
    running = (job for job in case.facts.jobs or () if not job.spec.suspend and job.outcome is None)
    return trees is not None and any(
        trees.of_job(job.metadata.name) is not None and not job.spec.template.spec.pod_group for job in running
    )


def tree_restarts(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Finds trees whose Jobs wait until all Jobs of an earlier attempt in the tree are gone."""
    old_jobs = case.facts.leftover_pods.keys() | {child.name for child in case.survey.previous_jobs}
    unstarted_jobs = unexplained_jobs & _unstarted_jobs(case)
    for root in _roots(case):
        ending_jobs, waiting_jobs = sorted(old_jobs & _job_names(root)), unstarted_jobs & _job_names(root)
        if ending_jobs and waiting_jobs:
            subject = f"{_title(root)}: {pluralize(len(waiting_jobs), 'Job', 'waits', 'wait')}"
            reason = "the scheduler counts pods that are ending as members"
            message = f"{subject} until all of an earlier attempt are gone ({join_names(ending_jobs)}): {reason}"
            yield Answer(Finding(Level.WAITS, "tree-restarts", message, fix=WAIT_FOR_PODS), waiting_jobs)


def waiting_trees(case: Case, unexplained_jobs: frozenset[str]) -> Iterator[Answer]:
    """Finds trees with pods without a node, and what each group waits for, or why the scheduler reports nothing.

    Later checks explain the Jobs that lack pods.
    """
    if case.facts.groups is None or case.facts.pods is None:
        return
    findings: list[KeyedFinding] = []
    explained: set[str] = set()
    for root in _roots(case):
        tree = _WaitingTree(case, case.facts.groups, root)
        jobs_in_tree = {child.name for child in tree.unready_jobs} & unexplained_jobs
        if jobs_in_tree and tree.pods_without_node:
            findings.append(KeyedFinding(_title(root), tree.key(root), tree.root_finding))
            explained |= jobs_in_tree - {child.name for child in tree.unready_jobs if missing_pods(child.job)}
    for position, (finding, _) in enumerate(merge_findings(findings, "group")):
        yield Answer(finding, frozenset() if position else frozenset(explained))


def _roots(case: Case) -> tuple[Group, ...]:
    return () if case.forest is None else case.forest.roots


def _job_names(group: Group) -> set[str]:
    return {job for below in group.walk() for job, _ in below.jobs}


def _unstarted_jobs(case: Case) -> frozenset[str]:
    """The names of Jobs that may wait for groups: missing or halted Jobs of ReplicatedJobs that may start."""
    survey = case.survey
    halted = (child.name for child in survey.halted_jobs if child.replicated_job not in survey.unmet_conditions)
    return frozenset([*(position.name for position in survey.startable_jobs), *halted])


class _WaitingTree:
    """One tree that may have pods without a node, as the facts show it."""

    def __init__(self, case: Case, groups: SeenGroups, root: Group) -> None:
        self._case, self._groups, self._root = case, groups, root
        group_names = {job: group.name for group in root.walk() for job, _ in group.jobs}
        unready_jobs = [case.unready_by_name[job] for job in sorted(group_names) if job in case.unready_by_name]
        groups_of_pods = ((child, child.job.spec.template.spec.pod_group) for child in unready_jobs)
        # Other checks explain Jobs that run without groups.
        self.unready_jobs = [child for child, group in groups_of_pods if group == group_names[child.name]]
        self._waiting_pods: dict[str, list[SeenPod]] = {
            child.name: [pod for pod in case.pods_of(child) if pod.is_live and not pod.spec.node_name]
            for child in self.unready_jobs
        }
        self._jobs = {job.metadata.name: job for job in case.facts.jobs or () if job.metadata.name in group_names}
        self._paths = {path[-1].name: path for path in paths_from_root(root)}
        self._tree_state = self._make_tree_state()
        self._permanent_findings = self._find_permanent_findings()

    @property
    def pods_without_node(self) -> list[SeenPod]:
        """The known live pods of the tree that have no node."""
        return [pod for pods in self._waiting_pods.values() for pod in pods]

    @property
    def _is_unreported(self) -> bool:
        """Whether the scheduler has said nothing about any pod of the tree."""
        return not any(pod.scheduling_failure for pod in self.pods_without_node)

    def key(self, group: Group) -> object:
        """A key that is equal for groups with the same findings."""
        if group is self._root and self._is_unreported:
            return group.template, self._bound_pods(group), why_stalled(self._tree_state).id
        below = tuple(self.key(child) for child in group.children)
        problems = tuple(problem.message for problem, _ in self._misfits(group))
        tree_problems = tuple(problem.message for problem in self._permanent_findings) if group is self._root else ()
        return group.template, self._bound_pods(group), self._messages(group), problems, tree_problems, below

    def root_finding(self) -> Finding:
        """The finding about the root, with findings about the groups below it."""
        because = tuple(self._ignored_groups())
        if self._is_unreported and not because:
            reason = why_stalled(self._tree_state)
            level = Level.FAULT if reason.is_user_fault or self._case.is_manager_missing else Level.WAITS
            because = (Finding(level, reason.id, reason.problem, fix=reason.fix),)
            return self._finding(self._root, because, cause="gang-waits")
        because += (*self._permanent_findings, *self._findings_below(self._root))
        has_fault = any(finding.worst_level is Level.FAULT for finding in because)
        return self._finding(self._root, because, cause="gang-waits", fix="" if has_fault else self._room_fix())

    def _finding(self, group: Group, because: tuple[Finding, ...], *, cause: str, fix: str = "") -> Finding:
        """The finding about how many pods of a group have a node, and how many members have to fit at once."""
        jobs = f", {_jobs_text(group)}" if group.jobs else ""
        message = f"{_title(group)}{jobs}: {self._bound_pods(group)} of {pluralize(group.pods, 'pod')} bound"
        demand = _demand_text(group, required_members(self._tree_state, group))
        moments = (pod.scheduling_failure.since for pod in self._pods(group) if pod.scheduling_failure)
        since = min(filter(None, moments), default="")
        return Finding(Level.WAITS, cause, f"{message}; {demand}", because=because, fix=fix, since=since)

    def _findings_below(self, group: Group) -> list[Finding]:
        """The findings about waiting children of a CompositePodGroup, or the scheduler's findings about a PodGroup."""
        if not group.is_composite:
            return self._scheduler_findings(group)
        waiting_groups = [child for child in group.children if self._pods(child)]
        finders = ((child, partial(self._waiting_group_finding, child)) for child in waiting_groups)
        findings = (KeyedFinding(_title(child), self.key(child), find_finding) for child, find_finding in finders)
        return [finding for finding, _ in merge_findings(findings, "group")]

    def _waiting_group_finding(self, group: Group) -> Finding:
        return self._finding(group, tuple(self._findings_below(group)), cause="group-waits")

    def _scheduler_findings(self, group: Group) -> list[Finding]:
        """The scheduler's messages about a PodGroup and its pods, and the requirements that no node meets."""
        findings = []
        group_message, pod_messages = self._messages(group)
        for text in filter(None, (group_message, *pod_messages)):
            level, fix = Level.WAITS, ""
            keys = topology_keys(self._paths[group.name])
            if text == NO_PLACEMENT and keys and not self._permanent_findings:
                level, fix = Level.FAULT, self._no_domain_fix(keys)
            message = f"the scheduler says: {text}{self._shortfall_text(group, text)}"
            findings.append(Finding(level, "scheduler-said", message, fix=fix))
        for problem, pods in self._misfits(group):
            message = f"{pods_are(pods)} not scheduled: {problem.message}"
            findings.append(Finding(problem.level, problem.cause, message, fix=problem.fix))
        # The scheduler may mention one domain only, so the finding about Jobs that keep others out of domains is first.
        return sorted(findings, key=lambda finding: finding.cause != KEPT_OUT)

    def _misfits(self, group: Group) -> list[tuple[Finding, list[SeenPod]]]:
        """At most two findings about requirements of pods of a PodGroup that no node meets, with the pods of each."""
        pods_by_message: dict[str, tuple[Finding, list[SeenPod]]] = {}
        for pod in () if group.is_composite else sorted(self._pods(group), key=lambda pod: pod.name):
            problem = unbound_claim(self._case, pod) or misfit_finding(self._case, pod, in_group=True)
            is_fault = problem is not None and problem.level is Level.FAULT
            exclusion = None if is_fault else excluded_by_jobs(self._case, pod, in_group=True)
            for finding in filter(None, (exclusion, problem)):
                # A tree that never fits does not fit after a wait either, so findings of level WAITS are left out.
                if finding.level is Level.FAULT or not self._permanent_findings:
                    pods_by_message.setdefault(finding.message, (finding, []))[1].append(pod)
        return list(pods_by_message.values())[:2]

    def _find_permanent_findings(self) -> list[Finding]:
        """Findings about why the tree never fits on the nodes; empty if the scheduler has not tried to place it."""
        nodes = self._case.facts.node_offers
        if nodes is None or self._is_unreported:
            return []
        spec_by_job = {job: pods[0].spec for job, pods in self._waiting_pods.items() if pods}
        return why_tree_never_fits(self._root, nodes, spec_by_job)

    def _no_domain_fix(self, keys: list[str]) -> str:
        """The fix if the scheduler finds no domain, by the label keys of domains. Unknown nodes may lack labels."""
        if self._case.facts.node_offers is not None:
            return f"kubectl get nodes -L {','.join(keys)} shows the domains: none has a node that its pods may use"
        wanted = " ".join(f"{key}=VALUE" for key in keys)
        return (
            f"if no node has all labels of its levels ({', '.join(keys)}), have an administrator of the cluster run"
            f" kubectl label node NODE {wanted}, or choose another topology in a new JobSet"
        )

    def _messages(self, group: Group) -> tuple[str, tuple[str, ...]]:
        """The scheduler's messages about a PodGroup and about its pods, without repetitions."""
        condition, group_message = self._condition(group), ""
        if condition is not None and condition.status == "False":
            group_message = without_repetition(condition.message)
        failures = filter(None, (pod.scheduling_failure for pod in self._pods(group)))
        pod_messages = list(dict.fromkeys(without_repetition(failure.message) for failure in failures))
        if group_message:
            pod_messages = [text for text in pod_messages if text != group_message and not is_about_group(text)]
        return group_message, tuple(pod_messages[:2])

    def _shortfall_text(self, group: Group, text: str) -> str:
        """A clause that names the group for which the scheduler finds too little room, and the room that it has.

        `text`: the scheduler's message, which names only the number of members that have to fit. The clause is empty
        unless exactly one of the groups on the path from the root demands this number.
        """
        if (lack := shortfall(text)) is None:
            return ""
        path = self._paths[group.name]
        lacking_groups = [above for above in path if str(required_members(self._tree_state, above)) == lack.wanted]
        if len(lacking_groups) != 1:
            return ""
        [above] = lacking_groups
        members = "groups" if above.is_composite else "pods"
        has_domains = above.topology_key and lack.placements
        location = f" in the first of {lack.placements} {domain_word(above.topology_key)}s" if has_domains else ""
        room = f"there is room for {lack.fit}{location}"
        return f"; that is: {_title(above)} needs {lack.wanted} {members} at once, and {room}"

    def _ignored_groups(self) -> list[Finding]:
        """At most one finding, that the scheduler has given nodes to pods and ignored their groups."""
        leaves = [group for group in self._root.walk() if not group.is_composite and self._bound_pods(group)]
        if not leaves or any(self._condition(group) for group in self._root.walk()):
            return []
        message = (
            f"pods of PodGroup {leaves[0].name} have nodes, and the scheduler has never said a word about the group"
        )
        fix = (
            "start kube-scheduler with --feature-gates=GenericWorkload=true: without it, pods are scheduled one by one"
        )
        return [Finding(Level.FAULT, "scheduler-ignores-groups", message, fix=fix)]

    def _condition(self, group: Group) -> Condition | None:
        stored_group = self._groups.groups_by_name.get(group.name)
        return None if stored_group is None else find(stored_group.status.conditions or (), INITIALLY_SCHEDULED)

    def _pods(self, group: Group) -> list[SeenPod]:
        return [pod for below in group.walk() for job, _ in below.jobs for pod in self._waiting_pods.get(job, ())]

    def _bound_pods(self, group: Group) -> int:
        uids = (self._jobs[job].metadata.uid for job in _job_names(group) if job in self._jobs)
        return sum(self._groups.placed_pods_by_job.get(uid, 0) for uid in uids)

    def _make_tree_state(self) -> Tree:
        waiting_names = self._case.survey.unmet_conditions.keys()
        root = self._groups.groups_by_name.get(self._root.name)
        return Tree(
            root=self._root,
            stored_groups=self._groups.groups_by_name,
            released_replicated_jobs={r.name for r in self._case.facts.jobset.spec.replicated_jobs} - waiting_names,
            pod_counts={name: job.status.active for name, job in self._jobs.items()},
            waiting_pods=[_waiting_pod(pod) for pod in self.pods_without_node],
            priority=None if root is None else root.spec.priority,
        )

    def _room_fix(self) -> str:
        key = self._root.topology_key
        location = f" in one {domain_word(key)}" if key else ""
        return (
            f"it goes on by itself when there is room for all that has to fit{location}: add nodes or end what is there"
        )


def _waiting_pod(pod: SeenPod) -> WaitingPod:
    gates = tuple(gate.name for gate in pod.spec.scheduling_gates)
    return WaitingPod(pod.name, gates, pod.spec.priority or 0, pod.spec.scheduler_name)


def _title(group: Group) -> str:
    return f"{group.kind} {group.name}"


def _jobs_text(group: Group) -> str:
    names = [job for job, _ in group.jobs]
    return f"Job {names[0]}" if len(names) == 1 else pluralize(len(names), "Job")


def _demand_text(group: Group, required: int) -> str:
    """How many members of a group have to fit at once. `required`: the number of members that the gang needs."""
    members = len(group.children) if group.is_composite else group.pods
    word = "group" if group.is_composite else "pod"
    location = f", in one {domain_word(group.topology_key)}" if group.topology_key else ""
    if group.gang_size is None:
        return f"{word}s are scheduled one by one{location}"
    if members == 1:
        return f"its one {word} has to fit{location}"
    share = f"all {members}" if required >= members else f"{required} of {members}"
    return f"{share} {word}s have to fit at once{location}"

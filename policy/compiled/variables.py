"""The variables of compiled admission policies that several rules read, each with the function that writes it. Pure."""

from collections.abc import Mapping

from api import restart_agent
from policy.cel import NEW, OLD, Cel, Expression, Root, literal, text, texts


def _changed_pods(root: Root) -> Cel:
    """A list of the pod specs by ReplicatedJob; an empty map for a ReplicatedJob that an update leaves as it was."""
    other = OLD if root == NEW else NEW
    jobs, other_jobs = root.variable("jobs"), other.variable("jobs")
    is_unchanged = f"oldObject != null && i < {other_jobs}.size() && j == {other_jobs}[i]"
    return Cel(f"{jobs}.transformList(i, j, {is_unchanged} ? dyn({{}}) : {root.variable('pods')}[i])")


def _containers(root: Root) -> Cel:
    """A list of all containers, each as a map.

    Its keys: `j` is the index of the ReplicatedJob, `f` the field of the pod spec, `k` the index in that field, `c` the
    container, and `p` the pod spec.
    """
    return Cel(
        f"{root.variable('changedPods')}.transformList(i, p, ['containers', 'initContainers'].map(f, p[?f].orValue([])"
        ".transformList(k, c, {'j': dyn(i), 'f': dyn(f), 'k': dyn(k), 'c': dyn(c), 'p': dyn(p)}))).flatten(2)"
    )


def _volumes(root: Root) -> Cel:
    """A list of all volumes, each as a map: index `j` of its ReplicatedJob, index `k` in the pod spec, volume `v`."""
    return Cel(
        f"{root.variable('changedPods')}.transformList(i, p, p.?volumes.orValue([])"
        ".transformList(k, v, {'j': dyn(i), 'k': dyn(k), 'v': dyn(v)})).flatten()"
    )


def _agents(root: Root) -> Cel:
    """A list with a list for each ReplicatedJob: the container that `api.restart_agent` adds, if it adds one."""
    policy, jobs, lists = f"{root.name}.?spec.?failurePolicy", root.variable("jobs"), texts(restart_agent.LISTS)
    wanted = f"{policy}.?agent.hasValue() && {policy}.?restartStrategy.orValue('') == 'InPlaceRestart'"
    waits = f"{jobs}.map(o, o.?dependsOn.orValue([]).filter(d, d.status == 'Complete').map(d, d.name)).flatten()"
    in_use = f"p[?f].orValue([]).exists(c, c.?name.orValue('') == {text(restart_agent.NAME)})"
    main = f"{policy}.?agent.?mode.orValue('') == 'MainContainer'"
    volume = f"{main} && {policy}.?agent.?imageVolume.orValue(false)"
    container = (
        f"{{'image': dyn({policy}.?agent.?image.orValue('')), 'restartPolicy': dyn({main} ? '' : 'Always'),"
        f" 'resources': {volume} ? dyn({{}}) : dyn({literal(restart_agent.RESOURCES)})}}"
    )
    added = (
        f"!(j.name in w) && ![{root.variable('pods')}[i]].exists(p, {lists}.exists(f, {in_use})) ? [{container}] : []"
    )
    return Cel(f"[{wanted} ? {waits} : []].map(w, {jobs}.transformList(i, j, {wanted} && {added}))[0]")


SHARED: Mapping[str, Expression] = {
    "jobs": lambda root: Cel(f"{root.name}.?spec.?replicatedJobs.orValue([])"),
    "pods": lambda root: Cel(f"{root.variable('jobs')}.map(j, j.?template.?spec.?template.?spec.orValue({{}}))"),
    "changedPods": _changed_pods,
    "agents": _agents,
    "containers": _containers,
    "volumes": _volumes,
    "labels": lambda root: Cel(f"{root.name}.metadata.?labels.orValue({{}})"),
    "annotations": lambda root: Cel(f"{root.name}.metadata.?annotations.orValue({{}})"),
}
"""Variables by name. A variable may read the variables before it."""

"""The Jobs and scheduling groups of the model of a namespace: what they may become, and who deletes them."""

from typing import Any

import msgspec

from controllers.planning.actions import CreateGroup, DeleteGroup, PatchGroup
from dev.simulator import group_rules
from dev.simulator.patches import merge
from tests.support.objects.placement import moment

JSON = dict[str, Any]


class Namespace:
    """Stored Jobs by name, and stored groups by kind and name. Time is a counter of seconds."""

    def __init__(self) -> None:
        self.jobs: dict[str, JSON] = {}
        self.groups: dict[tuple[str, str], JSON] = {}
        self.seconds = 0
        self._uids = 0

    @property
    def now(self) -> str:
        return moment(self.seconds)

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Workloads, CompositePodGroups or PodGroups, by name."""
        return [of for (kind_, _), of in sorted(self.groups.items()) if kind_ == kind]

    def release(self) -> None:
        """PodGroups in deletion go when no pod that lives is of them."""
        for place, of in list(self.groups.items()):
            if "deletionTimestamp" in of["metadata"] and not group_rules.has_pods(place[1], self.jobs.values()):
                del self.groups[place]

    def lose(self, kind: str, name: str) -> None:
        """Somebody deletes a Workload, CompositePodGroup or PodGroup."""
        of = self.groups[kind, name]
        if kind == "PodGroup" and group_rules.has_pods(name, self.jobs.values()):
            of["metadata"]["deletionTimestamp"] = self.now
        else:
            del self.groups[kind, name]

    def schedule(self) -> None:
        """kube-scheduler says of every PodGroup that it was scheduled."""
        for of in self.of_kind("PodGroup"):
            of["status"] = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]}

    def group_of(self, job: str) -> str:
        """The PodGroup that the pods of a Job name; empty for none."""
        return group_rules.group_of(self.jobs[job])

    def apply_group_action(self, action: CreateGroup | PatchGroup | DeleteGroup) -> None:
        """Carry it out, as the API server would, and refuse what could not happen."""
        place = action.kind, action.name
        if isinstance(action, CreateGroup):
            assert place not in self.groups, f"{place} is created twice"
            self._create_group(place, action.build_body())
            return
        of = self.groups[place]
        assert of["metadata"]["uid"] == action.uid, f"{place} is another one by now"
        if isinstance(action, DeleteGroup):
            assert "deletionTimestamp" not in of["metadata"], f"{place} is deleted twice"
            self.lose(*place)
            return
        wanted = merge(of["spec"], action.patch["spec"])
        if not group_rules.change_refusal(action.kind, of["spec"], wanted):
            of["spec"] = wanted
            return
        assert action.replacement is not None, f"{place} cannot change to {wanted}"
        del self.groups[place]
        self._create_group(place, action.replacement)

    def _create_group(self, place: tuple[str, str], body: JSON) -> None:
        kind, name = place
        assert (body["kind"], body["metadata"]["name"]) == (kind, name), f"{place} has the body of another"
        spec = body["spec"]
        refusal = group_rules.refusal(kind, spec)
        assert not refusal, f"{place}: {refusal}"
        if kind != "Workload":
            workloads = {of["metadata"]["name"]: of["spec"] for of in self.of_kind("Workload")}
            composites = {of["metadata"]["name"] for of in self.of_kind("CompositePodGroup")}
            missing = group_rules.missing_reference(spec, workloads, composites)
            assert not missing, f"{place} is created ahead of {missing}"
        self.groups[place] = self.stored_body(body)

    def stored_body(self, body: JSON) -> JSON:
        """A copy as it is stored, with a UID."""
        self._uids += 1
        stored: JSON = msgspec.json.decode(msgspec.json.encode(body))
        stored["metadata"] |= {"uid": f"uid-{self._uids}", "creationTimestamp": self.now}
        return stored

    def check_groups_of(self, job: JSON) -> None:
        """A Job whose pods name a group may start only once that and all above it are there, and no pod of an earlier attempt."""
        name = "" if job["spec"]["suspend"] else group_rules.group_of(job)
        while name:
            of = next((of for (_, name_), of in self.groups.items() if name_ == name), None)
            assert of is not None, f"{job['metadata']['name']} is created ahead of its group {name}"
            name = of["spec"].get("parentCompositePodGroupName")

"""A client that knows only the Go JobSet's fields plays all recorded lives over the corpus, past both webhooks.

Nothing is lost, nothing is refused, and the spec changes where a write changes it, and only there.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonpatch
import pytest

from api.features import FeatureGates
from api.keys import OWN_FIELDS_COPY, QUEUE_NAME
from app.engine import engine
from kube.model.jsontree import dig, without_nulls
from kube.model.semantic import semantically_equal
from tests.support.corpus.go_crd import as_go_reads
from tests.support.corpus.manifests import Case, cases
from tests.support.objects.jobsets import JSON, stored
from tests.support.played.streams import STREAMS, USERS
from webhooks.jobset.default import with_defaults
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH, jobset_handlers
from webhooks.review import AdmissionRequest, AdmissionResponse, UserInfo

HANDLERS = jobset_handlers(engine(FeatureGates({"AllAlpha": True})))
LIVES = sorted(path.stem for path in STREAMS.glob("*.json"))
PLACED = {"metadata": ("labels", "annotations"), "spec": ("nodeSelector", "tolerations", "schedulingGates")}
"""What a queue writes into a pod template."""


def answered(path: str, new: JSON, old: JSON, client: str) -> AdmissionResponse:
    request = AdmissionRequest(
        uid="u",
        operation="UPDATE",
        namespace="default",
        object=new,
        old_object=old,
        user_info=UserInfo(username=USERS.get(client, client)),
        options={"fieldManager": client},
    )
    response = HANDLERS[path](request)
    assert isinstance(response, AdmissionResponse)
    assert response.allowed, response.status
    return response


def updated(new: JSON, old: JSON, client: str) -> tuple[JSON, bool]:
    """What an update stores, and whether the client is told that fields were put back."""
    mutated = answered(MUTATE_PATH, new, old, client)
    made: JSON = jsonpatch.apply_patch(new, list(mutated.patch))
    answered(VALIDATE_PATH, made, old, client)
    return made, any("[field-put-back]" in text for text in mutated.warnings)


def written(obj: JSON, sent: JSON) -> JSON:
    """A set as the recorded write leaves it: its own templates, with what the write has in its templates."""
    spec = {**copy.deepcopy(obj["spec"]), "suspend": sent["suspend"]}
    for i, rjob in enumerate(spec["replicatedJobs"]):
        theirs = sent["replicatedJobs"][i % len(sent["replicatedJobs"])]["template"]["spec"]["template"]
        template = rjob["template"]["spec"]["template"]
        for part, fields in PLACED.items():
            for field in fields:
                if value := dig(theirs, part, field):
                    template[part] = {**(template.get(part) or {})}
                    template[part][field] = both(template[part].get(field), value)
    return {**obj, "spec": spec}


def both(own: Any, added: Any) -> Any:
    if isinstance(added, dict):
        return {**(own or {}), **added}
    return [*(own or []), *(item for item in added if item not in (own or []))]


def writes(life: str) -> Iterator[tuple[str, JSON]]:
    """Client and spec of each recorded write after the creation, as often as it was sent, up to twice."""
    phases = json.loads((STREAMS / f"{life}.json").read_text(encoding="utf-8"))["phases"]
    for phase in phases.values():
        for entry in phase["requests"]:
            sent = entry["request"]
            if sent["verb"] != "create":
                assert {*sent["body"]} <= {"apiVersion", "kind", "metadata", "spec"}, "a new kind of write"
                yield from [(sent["client"], sent["body"]["spec"])] * min(entry["times"], 2)


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("case", cases("good"), ids=lambda case: case.id)
def test_each_write_of_each_recorded_life_loses_nothing(case: Case, life: str):
    manifest = without_nulls(case.manifest)
    manifest["metadata"].setdefault("labels", {})[QUEUE_NAME] = "q"
    manifest["spec"]["suspend"] = True
    created = old = stored(with_defaults(manifest)[0])
    for client, sent in writes(life):
        wanted = written(created, sent)
        # What a server-side apply leaves out, and others own, the API server keeps.
        new = wanted if client == "trainer" else as_go_reads(wanted)
        made, warned = updated({**new, "metadata": old["metadata"]}, old, client)
        assert semantically_equal(made["spec"], wanted["spec"])
        assert (made["spec"] == old["spec"]) == (wanted["spec"] == old["spec"]), "the generation rises by a change"
        assert warned == (new != wanted and new["spec"] != old["spec"])
        assert (OWN_FIELDS_COPY in made["metadata"].get("annotations", {})) == (as_go_reads(created) != created)
        old = made

"""A client that knows only the Go JobSet's fields plays a queue over the corpus, past both webhooks: nothing is lost."""

from __future__ import annotations

import copy

import jsonpatch
import pytest

from api.features import FeatureGates
from app.engine import engine
from kube.model.jsontree import dig, items, without_nulls
from kube.model.semantic import semantically_equal
from tests.support.corpus.go_crd import without_our_fields
from tests.support.corpus.manifests import Case, cases
from tests.support.objects.jobsets import JSON, stored
from webhooks.jobset.default import with_defaults
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH, jobset_handlers
from webhooks.review import AdmissionRequest, AdmissionResponse, UserInfo

HANDLERS = jobset_handlers(engine(FeatureGates({"AllAlpha": True})))
USERS = ["system:serviceaccount:kueue-system:kueue-controller-manager", "ann"]


def answered(path: str, new: JSON, old: JSON, user: str) -> AdmissionResponse:
    who = UserInfo(username=user)
    request = AdmissionRequest(
        uid="u", operation="UPDATE", namespace="default", object=new, old_object=old, user_info=who
    )
    response = HANDLERS[path](request)
    assert isinstance(response, AdmissionResponse)
    assert response.allowed, response.status
    return response


def updated(new: JSON, old: JSON, user: str) -> tuple[JSON, bool]:
    """What an update stores, and whether the client is told that fields were put back."""
    mutated = answered(MUTATE_PATH, new, old, user)
    made: JSON = jsonpatch.apply_patch(new, list(mutated.patch))
    answered(VALIDATE_PATH, made, old, user)
    return made, any("[field-put-back]" in text for text in mutated.warnings)


def as_go_reads(obj: JSON) -> JSON:
    """Without the fields that Go's types do not have. Actions are texts there: those of ours come through."""
    read = without_our_fields(obj)
    place = "spec", "failurePolicy", "rules"
    for rule, known in zip(items(obj, *place), items(read, *place), strict=True):
        known["action"] = rule["action"]
    return read


def as_a_queue_writes(obj: JSON, *, suspend: bool) -> JSON:
    """Suspended, or resumed on a rack."""
    spec = {**copy.deepcopy(obj["spec"]), "suspend": suspend}
    for rjob in spec["replicatedJobs"]:
        selector = dig(rjob, "template", "spec", "template", "spec").setdefault("nodeSelector", {})
        selector.pop("rack", None)
        if not suspend:
            selector["rack"] = "1"
    return {**obj, "spec": spec}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("case", cases("good"), ids=lambda case: case.id)
def test_a_set_is_suspended_resumed_and_evicted_without_loss(case: Case, user: str):
    old = stored(with_defaults(without_nulls(case.manifest))[0])
    for suspend in (True, False, True):
        made, warned = updated(as_a_queue_writes(as_go_reads(old), suspend=suspend), old, user)
        assert semantically_equal(made["spec"], as_a_queue_writes(old, suspend=suspend)["spec"])
        assert warned == (as_go_reads(old) != old)
        old = made

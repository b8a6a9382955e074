"""What admission reports about volume claims that exist already or cannot be created."""

from typing import Any

import pytest

from kube.errors import TransportError
from kube.model.field import FieldError
from tests.support.model.scripted_server import (
    DATA,
    MOUNT,
    Script,
    claims,
    create,
    errors,
    found_object,
    owned_by,
    refusal,
    status,
    warnings,
)
from tests.support.objects.jobsets import jobset, rjob

pytestmark = pytest.mark.looptime


class TestClaims:
    """Claims that exist already."""

    PREFIX = "spec.volumeClaimPolicies[0].templates[0]"

    async def ask(self, answer: Any, **options: Any) -> list[FieldError]:
        script = Script({"get persistentvolumeclaims": answer})
        return await create(script, jobset(rjob(pod=MOUNT), **claims(**options)))

    async def test_a_claim_that_fits_is_reused(self):
        live = {**DATA, "volumeMode": "Filesystem", "storageClassName": "standard", "volumeName": "pv-1"}
        assert await self.ask(found_object(name="data-train", spec=live)) == []

    async def test_a_claim_that_would_go_with_the_jobset_must_not_be_there_before(self):
        found = await self.ask(found_object(name="data-train", spec=DATA), retain=False)
        [error] = errors(found)
        assert error == (
            'spec.volumeClaimPolicies[0].retentionPolicy.whenDeleted: Invalid value: "Delete": retentionPolicy must be'
            ' retain when PVC exists; set it to Retain, or delete the claim "data-train" if its data may go'
        )

    @pytest.mark.parametrize(
        "meta", [{"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"ownerReferences": [owned_by("JobSet", "train")]}]
    )
    async def test_a_claim_in_deletion_is_a_warning(self, meta):
        found = await self.ask(found_object(name="data-train", spec={}, **meta), retain=False)
        assert errors(found) == []
        assert warnings(found) == [
            f"{self.PREFIX}: PVC data-train is being deleted; a new, empty one is created once it is gone"
        ]

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (lambda _: status(500, "InternalError", "etcd is away"), "500 etcd is away"),
            (TransportError("refused", sent=False), "no connection to the API server"),
            (lambda _: status(429, "TooManyRequests", "x", retry_after=9), "no answer within 3 s"),
        ],
    )
    async def test_an_api_server_that_is_slow_or_away_makes_no_jobset_invalid(self, answer, words):
        found = await self.ask(answer)
        assert errors(found) == []
        assert warnings(found) == [
            f"spec.volumeClaimPolicies: not checked against the cluster: {words}; events report faults"
        ]

    async def test_a_claim_that_may_not_be_read_is_an_internal_error(self):
        denied = status(403, "Forbidden", 'persistentvolumeclaims "x" is forbidden: no right')
        [error] = errors(await self.ask(lambda _: denied))
        assert error == (
            f"{self.PREFIX}: Internal error: failed to check for existing PVC data-train: no right;"
            " grant the right to get persistentvolumeclaims, then apply the JobSet again"
        )

    async def test_a_claim_to_be_made_is_tried_and_its_faults_stand_at_the_template(self):
        faults = refusal(
            ("spec.accessModes", "FieldValueRequired", "Required value: at least 1 access mode is required"),
            ("spec.resources[storage]", "FieldValueRequired", "Required value"),
            ("metadata.name", "FieldValueInvalid", "Invalid value: no"),
            kind="PersistentVolumeClaim",
        )
        script = Script({"create persistentvolumeclaims": faults})
        found = await create(script, jobset(rjob(pod=MOUNT), **claims()))
        assert [str(error.path) for error in found] == [
            f"{self.PREFIX}.spec.accessModes",
            f"{self.PREFIX}.spec.resources.requests.storage",
            f"{self.PREFIX}.metadata.name",
        ]

    async def test_a_claim_that_somebody_refuses_now_is_a_warning_with_the_reason(self):
        quota = 'persistentvolumeclaims "x" is forbidden: exceeded quota: none, requested: a'
        script = Script({"create persistentvolumeclaims": lambda _: status(403, "Forbidden", quota)})
        found = await create(script, jobset(rjob(pod=MOUNT), **claims()))
        assert errors(found) == []
        [warning] = warnings(found)
        assert str(warning).endswith("exceeded quota")

    async def test_a_claim_created_by_somebody_at_that_moment_is_no_fault(self):
        script = Script({"create persistentvolumeclaims": lambda _: status(409, "AlreadyExists", "x")})
        assert await create(script, jobset(rjob(pod=MOUNT), **claims())) == []

    async def test_a_claim_that_cannot_be_tried_is_only_a_warning(self):
        script = Script({"create persistentvolumeclaims": lambda _: status(500, "InternalError", "x")})
        found = await create(script, jobset(rjob(pod=MOUNT), **claims()))
        assert errors(found) == []
        assert len(warnings(found)) == 1

    async def test_a_name_that_no_object_can_have_is_not_looked_up(self):
        script = Script()
        await create(script, jobset(**claims(name="../../secrets")))
        assert "get persistentvolumeclaims" not in script.asked()

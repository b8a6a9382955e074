"""A CRD that is older than the manager is named at the start, with the fields that it lacks."""

import copy
import logging
from typing import Any

import msgspec
import pytest

from app.manager.crd import DOCUMENT, warn_of_old_crd
from kube.client import Client
from kube.errors import TransportError
from kube.transport import Request, Response
from manifests import crd
from manifests.crd_fields import missing_fields
from tests.support.model.memory_api import MemoryApi

pytestmark = pytest.mark.looptime


def document(*, without: tuple[str, ...] = ()) -> bytes:
    """What the API server says of our CRD, less these fields of the spec and the status."""
    schema: dict[str, Any] = copy.deepcopy(crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    for path in without:
        part, *inner, last = path.split(".")
        at = schema["properties"][part]
        for name in inner:
            at = at["properties"][name]
            at = at.get("items", at)
        del at["properties"][last]
    return msgspec.json.encode({"components": {"schemas": {"io.x-k8s.jobset.v1alpha2.JobSet": schema}}})


class Server(MemoryApi):
    """Answers with its documents, one after the other, the last one again and again."""

    def __init__(self, *documents: bytes) -> None:
        super().__init__()
        self.documents = list(documents)

    async def send(self, request: Request) -> Response:
        assert request.path == DOCUMENT
        if not self.documents:
            raise TransportError("no answer")
        return Response(200, {}, self.documents.pop(0) if len(self.documents) > 1 else self.documents[0])


def test_our_own_crd_lacks_nothing():
    assert missing_fields(document()) == []


def test_fields_are_named_at_any_depth():
    old = document(without=("spec.executionPolicy", "spec.failurePolicy.rules.action", "status.readyJobs"))
    assert missing_fields(old) == ["spec.failurePolicy.rules[*].action", "spec.executionPolicy", "status.readyJobs"]


async def test_an_old_crd_is_a_warning_that_says_what_to_apply(caplog: pytest.LogCaptureFixture):
    await warn_of_old_crd(Client(Server(document(without=("spec.executionPolicy",)))))
    [record] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.getMessage() == (
        "the CRD of JobSets is older than this manager and lacks spec.executionPolicy: the API server refuses or drops"
        " these fields. Apply it again: kubectl apply --server-side --force-conflicts -k manifests/crd"
    )


@pytest.mark.parametrize(
    "documents",
    [(), (b"{}",), (b"no JSON",), (document(),), (document(without=("spec.scheduling",)), document())],
    ids=["no answer", "not there", "unreadable", "good", "applied a moment ago"],
)
async def test_what_is_good_or_not_known_is_no_warning(caplog: pytest.LogCaptureFixture, documents: tuple[bytes, ...]):
    await warn_of_old_crd(Client(Server(*documents)))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []

"""AdmissionReviews as bytes, and the answers to them as Python objects."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import msgspec

JSON = dict[str, Any]
V1 = "admission.k8s.io/v1"


def review(obj: Any, old: Any = None, *, operation: str | None = None, version: str = V1, uid: str = "u1") -> JSON:
    """A review of a create, or of an update when `old` is given."""
    request = {
        "uid": uid,
        "operation": operation or ("CREATE" if old is None else "UPDATE"),
        "name": "train",
        "namespace": "default",
        "object": obj,
        "oldObject": old,
    }
    return {"apiVersion": version, "kind": "AdmissionReview", "request": request}


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


async def in_pieces(body: bytes) -> AsyncIterator[bytes]:
    """The body as a client sends it that does not know its length."""
    for start in range(0, len(body), 65536):
        yield body[start : start + 65536]


def answer(body: bytes) -> JSON:
    """The response of a well-formed review; fails when it is none. The patch comes decoded, as `operations`."""
    decoded = msgspec.json.decode(body)
    assert decoded["kind"] == "AdmissionReview"
    assert decoded["apiVersion"] in {V1, "admission.k8s.io/v1beta1"}
    response: JSON = decoded["response"]
    assert set(response) <= {"uid", "allowed", "status", "patch", "patchType", "warnings", "auditAnnotations"}
    assert isinstance(response["allowed"], bool)
    assert isinstance(response["status"]["code"], int)
    if "patch" in response:
        assert response["patchType"] == "JSONPatch"
        response["operations"] = msgspec.json.decode(base64.b64decode(response["patch"]))
    return response

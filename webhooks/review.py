"""Decodes AdmissionReviews and encodes the answers. Pure.

See docs/reference/validation.md#answers.

Every input gets a well-formed answer. Error messages of this module never quote values of the request.
"""

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import msgspec

from kube.model.jsontree import dig, rephrase_for_json
from kube.model.meta import JSON

GROUP = "admission.k8s.io"
KIND = "AdmissionReview"
V1 = f"{GROUP}/v1"
_VERSIONS = (V1, f"{GROUP}/v1beta1")
MAX_BODY = 7 * 1024 * 1024
"""The most bytes of a review."""
MAX_FIELDS = 750_000
"""The most fields and items of a review: two objects that etcd can store, with 4 bytes for each field."""

_MAX_REASON = 200
"""The most characters of the reason why a review cannot be decoded. The reason may quote a key of any length."""


class UserInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The user of the request, as authenticated by the API server."""

    username: str = ""


class AdmissionRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """admission.k8s.io AdmissionRequest, the fields in use. Objects are raw JSON, or null."""

    uid: str
    operation: str = ""
    name: str = ""
    namespace: str = ""
    dry_run: bool | None = None
    object: JSON | None = None
    old_object: JSON | None = None
    user_info: UserInfo = UserInfo()
    options: JSON | None = None

    @property
    def stored_object(self) -> JSON | None:
        """The stored object of an update; None for any other operation."""
        return self.old_object if self.operation == "UPDATE" else None

    @property
    def is_by_controller(self) -> bool:
        """Whether the user is a ServiceAccount."""
        return self.user_info.username.startswith("system:serviceaccount:")

    @property
    def field_manager(self) -> str:
        """The field manager of the request, which each server-side apply has; empty if there is none."""
        manager = dig(self.options, "fieldManager")
        return manager if isinstance(manager, str) else ""


class AdmissionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a handler. A refusal has a metav1.Status as its `status`. `patch` has JSON-patch operations.

    `rule_ids`: the rules that the object breaks, which are counted and not sent.
    """

    allowed: bool = True
    patch: tuple[JSON, ...] = ()
    status: JSON | None = None
    warnings: tuple[str, ...] = ()
    rule_ids: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = {}
    """Entries for the audit log. The API server puts the name of the webhook before each key."""

    @property
    def code(self) -> int:
        """The HTTP status with which the API server answers its client."""
        code = 200 if self.allowed else (self.status or {}).get("code", 403)
        return int(code)


HandlerAnswer = AdmissionResponse | Awaitable[AdmissionResponse]
Handler = Callable[[AdmissionRequest], HandlerAnswer]
"""Returns the answer, or an awaitable of the answer. For a costly review the call runs in a thread: it has to be pure,
and only the awaitable may use the event loop."""


async def answer_of(answer: HandlerAnswer) -> AdmissionResponse:
    """The answer of a handler, awaited if necessary."""
    return answer if isinstance(answer, AdmissionResponse) else await answer


class Review(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request with the API version of its answer."""

    api_version: Literal["admission.k8s.io/v1", "admission.k8s.io/v1beta1"]
    kind: Literal["AdmissionReview"]
    request: AdmissionRequest


class ReviewError(Exception):
    """A request has no valid review. `code` and `reason` are fields of a metav1.Status.

    `api_version` and `uid` are fields of the answer. `close`: whether the connection is closed with unread data.
    """

    def __init__(
        self, code: int, reason: str, message: str, *, api_version: str = V1, uid: str = "", close: bool = False
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.api_version = api_version
        self.uid = uid
        self.close = close

    def encode(self) -> bytes:
        """The answer, an AdmissionReview as JSON bytes."""
        return encode_review(
            request_refusal(self.code, self.reason, str(self)), uid=self.uid, api_version=self.api_version
        )


class _Version(msgspec.Struct, rename="camel"):
    api_version: str = ""


class _HeadRequest(msgspec.Struct):
    uid: str = ""


class _Head(_Version, rename="camel"):
    """The fields of a review that an answer needs. The decoder skips the objects."""

    request: _HeadRequest = msgspec.field(default_factory=_HeadRequest)


_decoder = msgspec.json.Decoder(Review)
_version_decoder = msgspec.json.Decoder(_Version)
_head_decoder = msgspec.json.Decoder(_Head)


def field_count(body: bytes) -> int:
    """The approximate number of fields and items of a review. The work for a review grows with this number."""
    return body.count(b":") + body.count(b",")


def check_fields(body: bytes, fields: int) -> None:
    """Raise `ReviewError` if a review has too many fields to be decoded: decoding blocks all other threads."""
    if fields <= MAX_FIELDS:
        return
    try:
        head = _head_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        head = _Head()
    message = (
        f"the review has about {fields} fields and items, and more than {MAX_FIELDS} are not read: put fewer into the"
        " lists of the object, or make several objects of it"
    )
    version, uid = _known_version(head.api_version), head.request.uid
    raise ReviewError(413, "RequestEntityTooLarge", message, api_version=version, uid=uid)


def decode_review(body: bytes) -> Review:
    """Decode a review. The last of repeated keys counts. Raises `ReviewError`."""
    try:
        review = _decoder.decode(body)
    except RecursionError:
        raise _unreadable("the AdmissionReview is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _unreadable(
            f"cannot read the AdmissionReview: {rephrase_for_json(error)[:_MAX_REASON]}", _version(body)
        ) from None
    if not review.request.uid:
        raise _unreadable("cannot read the AdmissionReview: request.uid is empty", review.api_version)
    return review


def _unreadable(message: str, api_version: str = V1) -> ReviewError:
    return ReviewError(400, "BadRequest", message, api_version=api_version)


def _version(body: bytes) -> str:
    """The API version of an invalid review; v1 if it cannot be read."""
    try:
        version = _version_decoder.decode(body).api_version
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        version = ""
    return _known_version(version)


def _known_version(version: str) -> str:
    return version if version in _VERSIONS else V1


def encode_review(response: AdmissionResponse, *, uid: str, api_version: str, audit: bool = False) -> bytes:
    """The answer as JSON bytes. `audit`: the answer has the review's UID for the audit log of the API server."""
    body: JSON = {"uid": uid, "allowed": response.allowed, "status": response.status or {"metadata": {}, "code": 200}}
    if response.patch:
        body["patchType"] = "JSONPatch"
        body["patch"] = base64.b64encode(msgspec.json.encode(response.patch)).decode()
    if response.warnings:
        body["warnings"] = response.warnings
    annotations = ({"request-uid": uid} if audit else {}) | dict(response.audit_annotations)
    if annotations:
        body["auditAnnotations"] = annotations
    return msgspec.json.encode({"apiVersion": api_version, "kind": KIND, "response": body})


def answer_without_object(request: AdmissionRequest) -> AdmissionResponse | None:
    """The answer to a review without an object to check; None if the object has to be checked."""
    if request.operation not in {"CREATE", "UPDATE"}:
        return AdmissionResponse()
    if request.object is None:
        return request_refusal(400, "BadRequest", f"request.object is missing from a review of {request.operation}")
    return None


def namespace_refusal(request: AdmissionRequest) -> AdmissionResponse | None:
    """The refusal of a review without a namespace, or with an object of another namespace.

    Admission sends requests in the namespace of the review, for which the API server has authorized the author.
    """
    if not request.namespace:
        return request_refusal(
            400, "BadRequest", "request.namespace is empty: this webhook is for objects in a namespace"
        )
    for name, obj in (("object", request.object), ("oldObject", request.old_object)):
        if dig(obj, "metadata", "namespace") not in (None, "", request.namespace):
            message = f"request.{name}.metadata.namespace is not request.namespace: leave it out, or make both the same"
            return request_refusal(400, "BadRequest", message)
    return None


def request_refusal(code: int, reason: str, message: str) -> AdmissionResponse:
    """A refusal of the request as a whole, not of fields of the object."""
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code}
    return AdmissionResponse(allowed=False, status=status)

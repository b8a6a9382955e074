"""Reviews by the API server: the user of a token, and whether a user has a right."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kube.client import Client
from kube.resources import Resource

REVIEW_TIMEOUT: Final = 10.0
"""Seconds that one review may take."""
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
OWN_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
"""Every user may create these reviews."""


class User(msgspec.Struct, frozen=True):
    """The user of a token (TokenReview `status.user`)."""

    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: User = User()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool | None = None
    """An API server always sets this field."""


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class Reviewer:
    """Sends reviews to the API server. Its methods raise the errors of `kube.errors`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def authenticate(self, token: str) -> User | None:
        """The user of a token; None if the token is not valid, for example because of a bad signature."""
        body = _review(TOKEN_REVIEWS, {"token": token})
        review = await self._client.create(TOKEN_REVIEWS, body, type=_TokenReview, timeout=REVIEW_TIMEOUT)
        return review.status.user if review.status.authenticated else None

    async def authorize(self, user: User, verb: str, path: str) -> bool:
        """Whether the user may use `verb` on the non-resource path."""
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        body = _review(ACCESS_REVIEWS, spec)
        review = await self._client.create(ACCESS_REVIEWS, body, type=_AccessReview, timeout=REVIEW_TIMEOUT)
        return bool(review.status.allowed)


async def has_right(client: Client, attributes: Mapping[str, str]) -> bool:
    """Whether this program itself has the right to a resource. Raises `KubeError`."""
    body = _review(OWN_ACCESS_REVIEWS, {"resourceAttributes": attributes})
    review = await client.create(OWN_ACCESS_REVIEWS, body, type=_AccessReview)
    return review.status.allowed is not False


def _review(resource: Resource, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}

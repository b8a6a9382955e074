"""Who writes the CA bundles of a webhook configuration, and what they hold."""

import base64

import pytest

from certs.bundles import INJECTORS, bundle_of, injector_annotation, trusts
from certs.validity import der_certificates
from tests.support.tls import material

ONE, OTHER = material().authorities, material().authorities
[AUTHORITY] = der_certificates(ONE)


def hook(bundle: bytes) -> dict[str, object]:
    return {"clientConfig": {"caBundle": base64.b64encode(bundle).decode()}}


@pytest.mark.parametrize("key", INJECTORS)
def test_an_annotation_names_another_writer(key: str):
    assert injector_annotation({"metadata": {"annotations": {"other": "x", key: "ns/name"}}}) == key


@pytest.mark.parametrize(
    "metadata",
    [None, {}, {"annotations": None}, {"annotations": {"a": "b"}}]
    + [{"annotations": {INJECTORS[-1]: value}} for value in (None, "", "false")],
)
def test_without_one_the_manager_writes(metadata: object):
    assert injector_annotation({"metadata": metadata}) == ""
    assert injector_annotation({}) == ""


def test_a_ca_is_trusted_if_each_webhook_has_it_in_its_bundle():
    assert trusts({"webhooks": [hook(ONE), hook(OTHER + ONE)]}, AUTHORITY)
    assert not trusts({"webhooks": [hook(ONE), hook(OTHER)]}, AUTHORITY)
    assert trusts({"webhooks": None}, AUTHORITY), "no webhook, nobody to trust"


@pytest.mark.parametrize("bad", [{}, {"clientConfig": None}, {"clientConfig": {"caBundle": None}}, hook(b"no PEM")])
def test_what_is_no_bundle_holds_nothing(bad: dict[str, object]):
    assert not trusts({"webhooks": [bad]}, AUTHORITY)
    assert bundle_of({"clientConfig": {"caBundle": "no base64!"}}) == b""

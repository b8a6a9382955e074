"""Names that Kubernetes takes and refuses."""

import pytest

from kube.model import validation as v


@pytest.mark.parametrize("text", ["a", "a-b", "a1", "a" * 63])
def test_good_dns1035_labels(text: str):
    assert v.dns1035_label(text) == []


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("", [v.DNS1035_FORMAT]),
        ("1a", [v.DNS1035_FORMAT]),
        ("a-", [v.DNS1035_FORMAT]),
        ("A", [v.DNS1035_FORMAT]),
        ("a.b", [v.DNS1035_FORMAT]),
        ("a\n", [v.DNS1035_FORMAT]),
        ("a" * 64, [v.TOO_LONG_LABEL]),
        ("A" * 64, [v.TOO_LONG_LABEL, v.DNS1035_FORMAT]),
        ("é" * 32, [v.TOO_LONG_LABEL, v.DNS1035_FORMAT]),
    ],
)
def test_bad_dns1035_labels(text: str, complaints: list[str]):
    assert v.dns1035_label(text) == complaints


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("a.b-c.1", []),
        ("a" * 253, []),
        ("a" * 254, ["must be no more than 253 characters"]),
        ("a..b", [v.DNS1123_SUBDOMAIN_FORMAT]),
        ("-a", [v.DNS1123_SUBDOMAIN_FORMAT]),
        ("a_b", [v.DNS1123_SUBDOMAIN_FORMAT]),
    ],
)
def test_dns1123_subdomains(text: str, complaints: list[str]):
    assert v.dns1123_subdomain(text) == complaints


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("", []),
        ("A_b.c-1", []),
        ("a" * 64, ["must be no more than 63 bytes"]),
        ("-a", [v.LABEL_VALUE_FORMAT]),
        ("a b", [v.LABEL_VALUE_FORMAT]),
    ],
)
def test_label_values(text: str, complaints: list[str]):
    assert v.label_value(text) == complaints


def test_messages_carry_the_two_spaces_that_clients_know():
    assert "(e.g. 'my-name',  or 'abc-123'," in v.DNS1035_FORMAT
    assert "(e.g. 'MyValue',  or 'my_value',  or '12345'," in v.LABEL_VALUE_FORMAT


def test_http_path():
    assert v.http_path("foo/bar;v=1") == []
    assert v.http_path("foo bar") == [v.HTTP_PATH_FORMAT]

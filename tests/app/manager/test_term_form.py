"""How the manager learns in which form leaders' terms are to be written."""

import json

import pytest

from api.exclusive import TermForm
from app.manager.admission import term_form
from app.settings import Settings, SettingsError, parse

HEAD = "apiVersion: config.jobset.x-k8s.io/v1alpha1\nkind: Configuration\n"


@pytest.mark.parametrize(
    ("major", "minor", "form"),
    [
        ("1", "37", TermForm.LABEL_KEYS),
        ("1", "33", TermForm.LABEL_KEYS),
        ("1", "33+", TermForm.LABEL_KEYS),
        ("2", "0", TermForm.LABEL_KEYS),
        ("1", "32", TermForm.EXPRESSIONS),
        ("1", "9", TermForm.EXPRESSIONS),
        ("", "", TermForm.EXPRESSIONS),
    ],
)
def test_by_the_version_of_the_api_server(major, minor, form):
    assert term_form("Auto", json.dumps({"major": major, "minor": minor}).encode()) is form


def test_a_server_that_does_not_say_gets_what_every_server_understands():
    assert term_form("Auto", b"{}") is TermForm.EXPRESSIONS


@pytest.mark.parametrize("form", TermForm)
def test_as_configured_whatever_the_version(form):
    settings = parse(f"{HEAD}exclusivePlacement: {{terms: {form.value}}}")
    assert term_form(settings.exclusive_placement.terms, b'{"major": "1", "minor": "5"}') is form


@pytest.mark.parametrize("text", ["{}", "{terms: Auto}", "{terms: ''}"])
def test_by_default_the_version_decides(text):
    assert parse(f"{HEAD}exclusivePlacement: {text}") == Settings()


def test_any_other_form_ends_the_start_with_the_place():
    with pytest.raises(SettingsError, match=r"exclusivePlacement\.terms"):
        parse(f"{HEAD}exclusivePlacement: {{terms: Short}}")

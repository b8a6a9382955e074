"""How the manager learns in which form leaders' terms are to be written."""

import json
from dataclasses import dataclass

import pytest

from api.exclusive import TermForm
from app.manager.admission import term_form
from app.settings import Settings, SettingsError
from app.settings_file import parse


@dataclass
class Version:
    """What the API server answers to /version, and how often it was asked."""

    answer: bytes
    asked: int = 0

    async def __call__(self) -> bytes:
        self.asked += 1
        return self.answer


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
async def test_auto_follows_the_version_of_the_api_server(major, minor, form):
    assert await term_form("Auto", Version(json.dumps({"major": major, "minor": minor}).encode())) is form


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b"",
        b"<html>",
        b"\xff",
        b"[]",
        b"null",
        b'{"major": null, "minor": {}}',
        b'{"minor": "%s"}' % (b"9" * 9999),
    ],
)
async def test_a_server_without_a_version_gets_the_form_that_every_server_understands(answer):
    assert await term_form("Auto", Version(answer)) is TermForm.EXPRESSIONS


@pytest.mark.parametrize("form", TermForm)
async def test_a_configured_form_needs_no_request(form):
    settings = parse(f"{HEAD}exclusivePlacement: {{terms: {form.value}}}")
    version = Version(b'{"major": "1", "minor": "5"}')
    assert await term_form(settings.exclusive_placement.terms, version) is form
    assert version.asked == 0


@pytest.mark.parametrize("text", ["{}", "{terms: Auto}", "{terms: ''}"])
def test_by_default_the_version_decides(text):
    assert parse(f"{HEAD}exclusivePlacement: {text}") == Settings()


def test_any_other_form_ends_the_start_with_the_place():
    with pytest.raises(SettingsError, match=r"exclusivePlacement\.terms"):
        parse(f"{HEAD}exclusivePlacement: {{terms: Short}}")

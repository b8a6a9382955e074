"""Which version of Kubernetes a feature needs, and what is said to the user of an older one."""

import json
import re
from pathlib import Path

import pytest

from kube.model import versions
from kube.model.versions import AGENT_SIDECAR, COMPILED_RULES, Feature, parse_version

PAGE = Path(__file__).parents[3] / "docs" / "kubernetes-versions.md"


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ((1, 33), "mode Sidecar needs Kubernetes 1.36 or newer, and the API server is 1.33"),
        ((1, 9), "mode Sidecar needs Kubernetes 1.36 or newer, and the API server is 1.9"),
        ((1, 36), ""),
        ((2, 0), ""),
        (None, ""),
    ],
)
def test_only_an_older_api_server_lacks_a_feature(server, said):
    assert AGENT_SIDECAR.shortfall(server) == said


def test_the_need_alone_names_the_first_version():
    assert COMPILED_RULES.need == "rules of policies in the API server need Kubernetes 1.34 or newer"


@pytest.mark.parametrize(("minor", "version"), [("33", (1, 33)), ("33+", (1, 33)), ("", None), (None, None)])
def test_a_version_is_read_from_what_providers_answer(minor, version):
    assert parse_version(json.dumps({"major": "1", "minor": minor}).encode()) == version


def test_the_page_has_a_row_for_each_feature():
    features = [each for each in vars(versions).values() if isinstance(each, Feature)]
    rows = re.findall(r"^\| .+ \| (1)\.(\d+) \| ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted((int(major), int(minor)) for major, minor in rows) == sorted(each.since for each in features)

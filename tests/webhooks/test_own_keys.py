"""Keys with JobSet's own prefixes: misspelt ones get a warning, those of others never do."""

import re
from pathlib import Path

import pytest

from api import keys
from api.features import FeatureGates
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset
from webhooks.jobset.answers import warning_texts

ENGINE = engine(FeatureGates())
PAGE = Path(__file__).parents[2] / "docs/reference/names-and-labels.md"


def with_keys(*own: str, field: str = "annotations") -> JSON:
    js = jobset()
    js["metadata"][field] = dict.fromkeys(own, "1")
    return js


def test_every_key_of_the_page_is_known():
    found = {
        key for text in (PAGE.read_text(),) for key in re.findall(r"`((?:alpha\.)?jobset\.sigs\.k8s\.io/[\w-]+)`", text)
    }
    assert len(found) > 15
    assert found - keys.OUR_KEYS <= {keys.CONTROLLER_NAME, keys.PLACEMENT_GATE, keys.SPARE_GATE, keys.NOT_READY}


def test_a_key_that_is_like_none_gets_the_page_that_lists_those_that_users_write():
    (warning,) = ENGINE.findings_about_new(with_keys("alpha.jobset.sigs.k8s.io/zzzz")).warnings
    (text,) = warning_texts([warning])
    assert f"docs/reference/{PAGE.name} lists" in text
    assert all(f"`{key}`" in PAGE.read_text() for key in keys.SET_BY_USERS)


def test_an_update_names_only_keys_that_it_brings():
    old = ENGINE.findings_about_new(with_keys("jobset.sigs.k8s.io/first")).object
    new = with_keys("jobset.sigs.k8s.io/first", "jobset.sigs.k8s.io/second")
    assert [str(error.path) for error in ENGINE.findings_about_update(old, new).warnings] == [
        "metadata.annotations[jobset.sigs.k8s.io/second]"
    ]


@pytest.mark.parametrize(
    ("own", "job", "pod", "named"),
    [
        ({}, {}, {}, []),
        ({keys.QUEUE_NAME: "q"}, {keys.QUEUE_NAME: "q"}, {}, []),
        ({}, {keys.QUEUE_NAME: "q"}, {keys.QUEUE_NAME: "q"}, ["template"]),
        ({}, {}, {keys.QUEUE_NAME: "q"}, ["template.spec.template"]),
    ],
)
def test_the_label_of_a_queue_belongs_to_the_jobset(own: JSON, job: JSON, pod: JSON, named: list[str]):
    js = jobset()
    js["metadata"]["labels"] = own
    template = js["spec"]["replicatedJobs"][0]["template"]
    template["metadata"] = {"labels": job}
    template["spec"]["template"]["metadata"] = {"labels": pod}
    found = [
        error
        for error in ENGINE.findings_about_new(js).warnings
        if error.rule and error.rule.id == "queue-label-on-template"
    ]
    places = [f"spec.replicatedJobs[0].{place}.metadata.labels[{keys.QUEUE_NAME}]" for place in named]
    assert [str(error.path) for error in found] == places

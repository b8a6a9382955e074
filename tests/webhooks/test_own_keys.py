"""Keys with JobSet's own prefixes: misspelt ones get a warning, those of others never do."""

import re
from pathlib import Path

import pytest

from api import keys
from api.features import FeatureGates
from app.engine import engine
from tests.support.objects.jobsets import JSON, jobset, rjob
from webhooks.jobset.answers import warning_texts
from webhooks.jobset.rules import MOST

ENGINE = engine(FeatureGates())
PAGE = Path(__file__).parents[2] / "docs/reference/names-and-labels.md"


def warned(js: JSON) -> list[str]:
    found = ENGINE.create(js)
    assert not found.errors
    return [str(error.path) for error in found.warnings if error.rule is not None and error.rule.id == "unknown-key"]


def with_keys(*own: str, field: str = "annotations") -> JSON:
    js = jobset()
    js["metadata"][field] = dict.fromkeys(own, "1")
    return js


@pytest.mark.parametrize("field", ["annotations", "labels"])
def test_known_keys_and_keys_of_others_get_no_warning(field):
    known = keys.OUR_KEYS - {keys.NODE_SELECTOR_STRATEGY, keys.EXCLUSIVE_TOPOLOGY}
    others = [
        "kueue.x-k8s.io/queue-name",
        "x.jobset.sigs.k8s.io/y",
        "jobset.sigs.k8s.io",
        "jobset.x-k8s.io/own",
        "plain",
    ]
    assert warned(with_keys(*known, *others, field=field)) == []


def test_the_list_of_known_keys_has_every_key_of_the_page_and_of_the_constants():
    found = {
        key for text in (PAGE.read_text(),) for key in re.findall(r"`((?:alpha\.)?jobset\.sigs\.k8s\.io/[\w-]+)`", text)
    }
    constants = {
        value for value in vars(keys).values() if isinstance(value, str) and value.startswith(keys.OUR_PREFIXES)
    }
    assert len(found) > 15
    assert (found | constants) - keys.OUR_KEYS <= {keys.CONTROLLER_NAME, keys.PLACEMENT_GATE, keys.NOT_READY}
    assert constants >= keys.OUR_KEYS


def test_a_key_that_is_like_none_gets_the_page_that_lists_those_that_users_write():
    (warning,) = ENGINE.create(with_keys("alpha.jobset.sigs.k8s.io/zzzz")).warnings
    (text,) = warning_texts([warning])
    assert f"docs/reference/{PAGE.name} lists" in text
    assert all(f"`{key}`" in PAGE.read_text() for key in keys.SET_BY_USERS)


def test_only_some_keys_are_named_and_none_that_is_too_long():
    many = with_keys(*(f"jobset.sigs.k8s.io/none-{i}" for i in range(1000)))
    assert len(warned(many)) == MOST
    pods = {
        "metadata": {"labels": {"jobset.sigs.k8s.io/" + "x" * 10_000: "1"}},
        "spec": rjob()["template"]["spec"]["template"]["spec"],
    }
    assert warned(jobset(rjob(job={"spec": {"template": pods}}))) == []


def test_an_update_names_only_keys_that_it_brings():
    old = ENGINE.create(with_keys("jobset.sigs.k8s.io/first")).object
    new = with_keys("jobset.sigs.k8s.io/first", "jobset.sigs.k8s.io/second")
    assert [str(error.path) for error in ENGINE.update(old, new).warnings] == [
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
    found = [error for error in ENGINE.create(js).warnings if error.rule and error.rule.id == "queue-label-on-template"]
    places = [f"spec.replicatedJobs[0].{place}.metadata.labels[{keys.QUEUE_NAME}]" for place in named]
    assert [str(error.path) for error in found] == places

"""Every sentence of the Go JobSet that docs/reference/admission-differences.md lists is in the answer to what provokes it."""

import re
from pathlib import Path

import pytest

from api.features import FeatureGates
from app.engine import engine
from kube.model.field import FieldError
from tests.support.corpus.manifests import cases
from tests.support.model.scripted_server import MOUNT, Script, claims, create, found_object, status
from tests.support.objects.jobsets import JSON, jobset, rjob, stored
from tests.support.objects.updates import JOB, changed
from tests.webhooks.test_corpus import judged
from webhooks.jobset.answers import jobset_answer
from webhooks.jobset.engine import Findings

README = (Path(__file__).parents[2] / "docs/reference/admission-differences.md").read_text(encoding="utf-8")
TABLE = README.partition("## Sentences of the Go JobSet\n")[2].partition("\n## ")[0]
SENTENCES = dict(re.findall(r"^\| `([a-z-]+)` \| ``(.+)`` \|$", TABLE, re.MULTILINE))
DEFAULT, ALL = FeatureGates(), FeatureGates({"AllAlpha": True})
OLD = stored(jobset(rjob(), rjob("b", dependsOn=[{"name": "workers", "status": "Ready"}]), managedBy="acme.io/foo"))
FINISHED = {**OLD, "status": {"conditions": [{"type": "Completed", "status": "True"}]}}
CHANGED: dict[str, tuple[JSON, JSON, FeatureGates]] = {
    "immutable-replicated-jobs": (OLD, changed(OLD, "replicatedJobs", 0, "name", to="c"), DEFAULT),
    "immutable-depends-on": (OLD, changed(OLD, "replicatedJobs", 1, "dependsOn", 0, "status", to="Complete"), DEFAULT),
    "immutable-depends-on-presence": (OLD, changed(OLD, "replicatedJobs", 1, "dependsOn", to=None), DEFAULT),
    "resize-finished": (FINISHED, {**changed(OLD, *JOB, "parallelism", to=2), "status": FINISHED["status"]}, ALL),
    "resize-at-least-one": (OLD, changed(OLD, *JOB, "parallelism", to=0), ALL),
}
EXISTING = "get persistentvolumeclaims"
ASKED: dict[str, tuple[Script, JSON]] = {
    "claim-differs": (
        Script({EXISTING: found_object(name="data-train", spec={"storageClassName": "slow"})}),
        claims(storageClassName="fast"),
    ),
    "claim-not-retained": (Script({EXISTING: found_object(name="data-train", spec={})}), claims(retain=False)),
    "claim-unchecked": (Script({EXISTING: lambda _: status(403, "Forbidden", "no right")}), claims()),
}


def says(rule: str, found: Findings, js: JSON) -> bool:
    """Whether the message of the Status has the sentence of the rule, which is one of those that were broken."""
    if rule not in {error.rule.id for error in found.errors if error.rule}:
        return False
    words = re.split(r"<\w+>", SENTENCES[rule])
    text = jobset_answer(found, js).status or {}
    return re.search(".+?".join(map(re.escape, words)), text["message"]) is not None


def test_the_corpus_provokes_every_sentence_of_the_table_but_those_below():
    assert len(SENTENCES) > 50
    answers = [(judged(case), case.manifest) for case in cases("bad")]
    told = {rule for found, js in answers for rule in SENTENCES if says(rule, found, js)}
    assert SENTENCES.keys() - told == CHANGED.keys() | ASKED.keys()


@pytest.mark.parametrize("rule", CHANGED)
def test_sentences_about_a_change(rule: str):
    old, new, gates = CHANGED[rule]
    assert says(rule, engine(gates).findings_about_update(old, new), new)


@pytest.mark.looptime
@pytest.mark.parametrize("rule", ASKED)
async def test_sentences_about_claims_that_exist(rule: str):
    script, policies = ASKED[rule]
    js = jobset(rjob(pod=MOUNT), **policies)
    found: list[FieldError] = await create(script, js)
    assert says(rule, Findings(tuple(error for error in found if not error.is_warning), (), js), js)

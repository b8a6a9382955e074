"""The checks that need no cluster, held to the corpus in tests/manifests; tests/integration/test_corpus_server.py has the
rest."""

import copy
import re
from itertools import product

import pytest

from api.features import FeatureGates
from app.engine import engine
from kube.model.field import FieldError
from kube.model.semantic import semantically_equal
from tests.support.corpus.manifests import MANIFESTS, SUFFIX, Case, case_id, cases, differences, without_defaults
from webhooks.jobset.answers import MAX_WARNING_LENGTH, MAX_WARNINGS, warning_texts
from webhooks.jobset.engine import Findings
from webhooks.jobset.subject import subject_of
from webhooks.jobset.validate_create import OPTIONAL_CHECKS

GOOD, BAD = cases("good"), cases("bad")
NAMESPACE = "test-0123456789"


def judged(case: Case) -> Findings:
    judge, new = engine(FeatureGates(case.gates)), case.manifest
    new["metadata"]["namespace"] = NAMESPACE
    if case.old is None:
        return judge.findings_about_new(new)
    old = case.old
    old["metadata"]["namespace"] = NAMESPACE
    return judge.findings_about_update(judge.findings_about_new(old).object, new)


def reported(errors: tuple[FieldError, ...]) -> list[tuple[str, str, str]]:
    return [(str(error.path), "" if error.is_warning else error.type.value, error.body) for error in errors]


def test_the_corpus_is_as_large_as_it_has_to_be():
    assert len(GOOD) >= 45
    assert len([case for case in BAD if case.errors or case.unknown]) >= 75
    assert len([case for case in BAD if len({finding.path for finding in case.errors}) >= 3]) >= 12


@pytest.mark.parametrize("folder", ["good", "bad"])
def test_every_manifest_says_what_it_is_for_and_every_answer_has_a_manifest(folder):
    files = sorted((MANIFESTS / folder).glob("*.yaml"))
    manifests = {file.stem for file in files if not file.name.endswith(SUFFIX)}
    answers = {file.name.removesuffix(SUFFIX) for file in files if file.name.endswith(SUFFIX)}
    assert answers <= manifests
    assert folder == "good" or answers == manifests
    for name in manifests:
        assert (MANIFESTS / folder / f"{name}.yaml").read_text().startswith("# ")


def test_what_is_good_is_good_for_the_corpus_too():
    assert [case.id for case in GOOD if case.errors or case.unknown or case.old] == []
    assert [case.id for case in BAD if not (case.errors or case.warnings or case.unknown)] == []


@pytest.mark.parametrize("case", GOOD + BAD, ids=case_id)
def test_every_mistake_that_needs_no_cluster_is_named_in_order(case):
    findings = judged(case)
    expected = [finding for finding in case.errors if finding.by_engine]
    assert differences(expected, reported(findings.errors)) == []
    assert [str(error.path) for error in findings.errors] == [finding.path for finding in expected]
    assert differences([w for w in case.warnings if w.by_engine], reported(findings.warnings)) == []


@pytest.mark.parametrize("case", GOOD + BAD, ids=case_id)
def test_optional_checks_find_nothing_without_their_keys(case):
    subject = subject_of(judged(case).object, FeatureGates(case.gates))
    for checks in OPTIONAL_CHECKS:
        if subject.used_keys.isdisjoint(checks.keys):
            found = [error for check in checks.of_set for error in check(subject)]
            for check, entry in product(checks.of_replicated_job, subject.entries):
                found += check(subject, entry)
            assert found == [], checks.keys


@pytest.mark.parametrize("case", GOOD + BAD, ids=case_id)
def test_every_answer_is_readable(case):
    findings = judged(case)
    assert not [error for error in findings.errors if "<nil>" in str(error) or not error.path.parts]
    assert not [text for each in (findings.errors, findings.warnings) for text in map(str, each) if text[-1] in " ;:,"]
    unfilled = re.compile(r"\{\w+\}")
    assert not [e for e in (*findings.errors, *findings.warnings) if not e.fix or unfilled.search(e.fix + e.detail)]
    texts = warning_texts(findings.warnings)
    assert len(texts) <= MAX_WARNINGS
    assert not [text for text in texts if len(text) > MAX_WARNING_LENGTH]


@pytest.mark.parametrize("case", [case for case in GOOD + BAD if case.warnings], ids=case_id)
def test_what_a_warning_says_fits_into_an_answer(case):
    texts = warning_texts(judged(case).warnings)
    expected = [finding.contains for finding in case.warnings if finding.by_engine]
    if len(expected) <= MAX_WARNINGS:
        assert not [words for words in expected if not any(all(word in text for word in words) for text in texts)]


@pytest.mark.parametrize("case", [case for case in BAD if case.unknown and not case.errors], ids=case_id)
def test_unknown_fields_are_found_without_a_server(case):
    schema = engine(FeatureGates()).schema
    assert [str(error.path) for error in schema.unknown_fields(case.manifest)] == list(case.unknown)
    assert schema.faults(case.manifest) == []


@pytest.mark.parametrize("case", GOOD, ids=case_id)
def test_a_good_manifest_gets_defaults_and_nothing_else(case):
    given = case.manifest
    sent = copy.deepcopy(given)
    findings = engine(FeatureGates(case.gates)).findings_about_new(sent)
    assert semantically_equal(without_defaults(findings.object["spec"], given["spec"], "spec"), given["spec"])
    assert sent == given
    assert engine(FeatureGates()).schema.unknown_fields(given) == []

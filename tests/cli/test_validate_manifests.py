"""The corpus of good and bad manifests, through the command line's checks: every fault, each with its place."""

import asyncio

import pytest

from api.features import FeatureGates
from authoring.findings import Report
from cli.check.validate import Options, check
from tests.support.corpus.manifests import Case, cases

CREATED = [case for case in cases("bad") if not case.before]


def report_on(case: Case) -> Report:
    options = Options([str(case.file)], FeatureGates(case.gates), namespace="a-namespace-of-a-team")
    return asyncio.run(check(options))


@pytest.mark.parametrize("case", CREATED, ids=lambda case: case.id)
def test_every_fault_has_a_place_of_its_own(case: Case):
    """Those that admission asks the API server about are found by the rules of `kube.model.job_rules`."""
    report = report_on(case)
    assert report.problems == []
    reported = {str(finding.error.path): finding for finding in report.findings}
    paths = [finding.path for finding in (*case.errors, *case.warnings)]
    for path in paths or case.unknown:
        finding = reported[path]
        assert finding.line_text[finding.column - 1 : finding.end_column - 1].strip()
        assert finding.line > 1, "somewhere in the object, not at its beginning"


@pytest.mark.parametrize("case", cases("good"), ids=lambda case: case.id)
def test_good_manifests_have_no_faults(case: Case):
    report = report_on(case)
    assert (report.jobsets, report.problems) == (1, [])
    assert [finding.reader_text for finding in report.findings if finding.severity == "error"] == []

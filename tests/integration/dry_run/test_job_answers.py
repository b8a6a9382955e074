"""The answers that the rules about Jobs are held to, asked again; and Jobs at random, which both have to judge alike."""

from hypothesis import HealthCheck, assume, given, settings

from dev.cluster.cluster import Cluster
from tests.support.corpus.job_answers import ask, child, recorded, unexpected
from tests.support.corpus.job_mistakes import CASES
from tests.support.corpus.job_mutations import templates
from tests.support.objects.jobsets import JSON


def test_the_api_server_still_says_what_it_said(server: Cluster):
    """Record them again with `python -m tests.support.corpus.job_answers` where it does not."""
    assert {name: ask(server, child(case)) for name, case in CASES.items()} == recorded()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(templates())
def test_jobs_at_random_are_judged_alike(server: Cluster, template: JSON):
    job = child(template)
    causes = ask(server, job)
    assume(causes is not None)  # an amount has become a text: that is for the schema to find
    assert unexpected(job, causes or []) == ([], [])

"""The answers that the rules about Jobs are held to, asked again; and Jobs at random, which both judge alike."""

from __future__ import annotations

from devcluster.cluster import Cluster
from tests.support.job_answers import ask, child, recorded
from tests.support.job_mistakes import CASES


def test_the_api_server_still_says_what_it_said(server: Cluster):
    """Record them again with `python -m tests.support.job_answers` where it does not."""
    assert {name: ask(server, child(case)) for name, case in CASES.items()} == recorded()

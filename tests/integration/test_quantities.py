"""The answers that amounts are held to, asked again."""

from dev.cluster.cluster import Cluster
from tests.support.corpus.quantities import ask_all, recorded


def test_an_api_server_still_reads_amounts_as_it_did(jobset_server: Cluster):
    """Record them again with `python -m tests.support.corpus.quantities` where it does not."""
    assert ask_all(jobset_server) == recorded()

"""Names, hashes and indices that clients recompute (docs/reference/names-and-labels.md)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import names
from api.layout import layout_of
from tests.support.objects.stored_sets import jobset, rjob


@pytest.mark.parametrize(
    ("namespace", "job", "key"),
    [
        ("default", "test-jobset-replicated-job-0", "027791c2c0a79daacbc05ab1512c28988581229f"),
        ("ns", "js-rjob-0", "a7669b1cda3edf7b92bbbd671a11743f93826f00"),
        ("default", "pytorch-workers-0", "e9c32417bf7f6390f44a2ef26e6f278b2d102443"),
    ],
)
def test_job_key_is_the_sha1_that_clients_recompute(namespace, job, key):
    assert names.job_key(namespace, job) == key


def test_subdomain_is_the_name_of_the_set_unless_given():
    assert names.subdomain(jobset()) == "js"
    assert names.subdomain(jobset(network={"subdomain": "net"})) == "net"
    assert names.subdomain(jobset(network=None)) == "js"


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("xyz")), max_size=6))
def test_global_and_group_indices_are_dense_and_unique(shape):
    js = jobset(*[rjob(f"r{i}", n, groupName=g) for i, (n, g) in enumerate(shape)]) if shape else jobset()
    layout = layout_of(js)
    positions = [position for jobs in layout.ranges for position in jobs.positions("js")]
    assert [s.global_index for s in positions] == list(range(layout.global_replicas))
    for name in {s.replicated_job.group_name for s in positions}:
        indices = [s.group_index for s in positions if s.replicated_job.group_name == name]
        assert indices == list(range(len(indices)))

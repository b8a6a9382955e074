"""Spares of a gang that has one domain: they are made there, and follow when it has moved."""

import pytest

from tests.controllers.test_spare_places import GANG, IN_ONE, running


def test_spares_keep_to_the_domain_of_the_workers_by_an_affinity():
    terms = {"topology": [{"key": "row"}]}
    levels = [{"targetReplicatedJobs": ["workers"], "schedulingConstraints": terms, "job": {}}]
    world = running(scheduling={**IN_ONE, "replicatedJobs": levels})
    pod = world.jobs["js-spare-0"]["spec"]["template"]["spec"]
    found = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["topologyKey"] for term in found] == ["rack", "row"]
    labels = world.jobs["js-workers-0"]["spec"]["template"]["metadata"]["labels"]
    assert all(term["labelSelector"]["matchLabels"].items() <= labels.items() for term in found)
    assert "affinity" not in world.jobs["js-workers-0"]["spec"]["template"]["spec"]
    assert "affinity" not in running(scheduling=GANG).jobs["js-spare-0"]["spec"]["template"]["spec"]


@pytest.mark.parametrize("scheduling", [None, GANG, IN_ONE])
def test_spares_of_a_gang_in_one_domain_are_made_again_after_a_restart_of_all(scheduling):
    """The gang may have moved; until it runs again, the spares may give their places to its lost pods."""
    world = running(scheduling=scheduling)
    before = {name: world.jobs[name]["metadata"]["uid"] for name in world.jobs if "spare" in name}
    world.fail("js-workers-0")
    world.replace_jobs()
    assert world.status.restarts == 1
    assert before.items() <= {name: job["metadata"]["uid"] for name, job in world.jobs.items()}.items()
    world.run()
    world.replace_jobs()
    after = {name: world.jobs[name]["metadata"]["uid"] for name in before}
    assert bool(before.items() & after.items()) == (scheduling != IN_ONE)
    world.run()
    world.replace_jobs()
    assert after == {name: world.jobs[name]["metadata"]["uid"] for name in before}, "once"

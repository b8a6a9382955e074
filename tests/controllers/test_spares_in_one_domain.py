"""Spares of a gang that has one domain, or one for each Job: they are made there, and follow when it has moved."""

from dataclasses import replace

import msgspec
import pytest

from api import keys
from api.spares import with_domain_affinity
from tests.controllers.test_node_failure import on_failed_node
from tests.controllers.test_spare_places import EACH_IN_ONE, GANG, GATES, IN_ONE, IN_PLACE, LOST, lose, running

IN_ZONE = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}


def test_spares_keep_to_the_domain_of_the_workers_by_an_affinity():
    terms = {"topology": [{"key": "row"}]}
    levels = [{"targetReplicatedJobs": ["workers"], "schedulingConstraints": terms, "job": {}}]
    world = running(scheduling={**IN_ONE, "replicatedJobs": levels})
    pod = world.jobs["js-spare-0"]["spec"]["template"]["spec"]
    found = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["topologyKey"] for term in found] == ["rack", "row"]
    labels = world.jobs["js-workers-0"]["spec"]["template"]["metadata"]["labels"]
    for term in found:
        chosen = term["labelSelector"]["matchLabels"]
        assert chosen.items() <= labels.items()
        assert chosen.keys() == {keys.JOBSET_UID, keys.REPLICATED_JOB_NAME}, "no pods of other sets, no other spares"
    assert "affinity" not in world.jobs["js-workers-0"]["spec"]["template"]["spec"]
    assert "affinity" not in running(scheduling=GANG).jobs["js-spare-0"]["spec"]["template"]["spec"]


def test_spares_in_the_domain_keep_the_other_affinities_of_the_workers():
    nodes, near = {"requiredDuringSchedulingIgnoredDuringExecution": {}}, {"topologyKey": "zone", "labelSelector": {}}
    wished = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": near}]}
    pod = {"affinity": {"nodeAffinity": nodes, "podAffinity": wished}}
    job = {"spec": {"template": {"metadata": {"labels": {}}, "spec": pod}}}
    found = with_domain_affinity(job, running(scheduling=IN_ONE).js, "workers")["spec"]["template"]["spec"]["affinity"]
    assert found["nodeAffinity"] == nodes
    assert wished.items() <= found["podAffinity"].items()
    assert len(found["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]) == 1


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


def test_where_each_job_has_a_domain_a_spare_follows_the_job_of_its_index():
    world = running(scheduling={**GANG, **IN_ZONE, **EACH_IN_ONE})
    for index in range(2):
        pod = world.jobs[f"js-spare-{index}"]["spec"]["template"]["spec"]
        found = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert [term["topologyKey"] for term in found] == ["zone", "rack"]
        for name in (f"js-workers-{1 - index}", f"js-workers-{index}"):
            labels = world.jobs[name]["spec"]["template"]["metadata"]["labels"]
            chosen = [term["labelSelector"]["matchLabels"].items() <= labels.items() for term in found]
            assert chosen == [name.endswith(str(index))] * 2


def test_where_each_job_has_a_domain_its_place_goes_to_a_pod_of_that_job():
    world = running(scheduling=EACH_IN_ONE, **IN_PLACE)
    world.since_status_write = 0.0  # the counts of the Jobs may be older
    lose(world)
    assert world.entry == (0, (f"{LOST}-0",))
    pod = world.add(LOST)
    world.settle()
    assert [(place.pod, place.node) for place in world.given] == [(pod, "s1")]
    lose(world)
    assert world.entry == (1, ()), "the spare beside the other Job holds no place for it"
    world.add(LOST)
    world.settle()
    assert len(world.given) == 1
    lose(world, "js-workers-0")
    assert world.entry == (1, ("js-workers-0-0",))


def test_where_each_job_has_a_domain_no_more_places_are_promised_than_are_in_it():
    world = running(scheduling=EACH_IN_ONE, **IN_PLACE)
    world.since_status_write = 0.0  # the counts of the Jobs may be older
    pod = on_failed_node(world, "js-workers-0")
    world.pods_on_failed_nodes.append(replace(pod, name="js-workers-0-1-abcde", uid="another"))
    lose(world)
    assert world.entry == (0, ("js-workers-0-0", f"{LOST}-0"))


def test_where_each_job_has_a_domain_no_job_takes_the_promise_of_another():
    world = running(scheduling=EACH_IN_ONE, **IN_PLACE)
    world.since_status_write = 0.0  # the counts of the Jobs may be older
    on_failed_node(world, LOST)
    world.settle()
    assert world.entry == (0, (f"{LOST}-0",))
    world.pool = {name: pod for name, pod in world.pool.items() if "spare-1" not in name}
    on_failed_node(world, "js-workers-0", node="n2")
    world.settle()
    assert world.entry == (0, ("js-workers-0-0",)), "its own spare is free"


@pytest.mark.parametrize("scheduling", [None, IN_ONE, EACH_IN_ONE])
def test_the_spare_of_a_completed_job_goes_where_no_other_job_can_use_it(scheduling):
    world = running(scheduling=scheduling)
    world.finish(LOST)
    world.replace_jobs()
    is_kept = scheduling != EACH_IN_ONE
    assert ("js-spare-1" in world.jobs) == is_kept
    [entry] = world.status.spares
    assert (entry.ready, entry.missing) == ((2, 0) if is_kept else (1, 0))
    [counts] = [each for each in world.js.status.replicated_jobs_status if each.name == "spare"]
    assert (counts.ready, counts.succeeded) == ((2, 0) if is_kept else (1, 1)), "a queue waits for two of them"
    world.jobs.pop("js-spare-0")
    world.settle()
    assert {"js-spare-0", "js-spare-1"} - world.jobs.keys() == (set() if is_kept else {"js-spare-1"})
    assert world.status.spares[0].missing == 1
    world.edit(suspend=True)
    world.settle()
    [counts] = [each for each in world.js.status.replicated_jobs_status if each.name == "spare"]
    assert (counts.ready, counts.succeeded) == (0, 0), "it waits for the quota of all"


def test_spares_of_jobs_that_the_set_has_no_longer_go_and_come_with_these(monkeypatch):
    monkeypatch.setitem(GATES, "ElasticJobSet", value=True)
    world = running(scheduling=EACH_IN_ONE)
    workers, spare = world.js.spec.replicated_jobs
    world.edit(replicated_jobs=(msgspec.structs.replace(workers, replicas=1), spare))
    world.replace_jobs()
    assert world.jobs.keys() == {"js-workers-0", "js-spare-0"}
    assert [(entry.ready, entry.missing) for entry in world.status.spares] == [(1, 0)]
    world.edit(replicated_jobs=(workers, spare))
    for _ in range(2):
        world.settle()
        world.run()
    world.settle()
    assert "js-spare-1" in world.jobs


def test_a_spare_follows_its_job_when_that_is_created_again_alone():
    world = running(scheduling=EACH_IN_ONE, rules=[{"name": "alone", "action": "RestartJob"}])
    before = {name: job["metadata"]["uid"] for name, job in world.jobs.items()}
    world.seconds += 5
    world.fail(LOST)
    world.replace_jobs()
    world.run()
    world.replace_jobs()
    after = {name: job["metadata"]["uid"] for name, job in world.jobs.items()}
    assert {name for name in before if before[name] != after[name]} == {LOST, "js-spare-1"}

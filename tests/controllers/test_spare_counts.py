"""Places of spares are counted once, also if a manager ends between two writes."""

from api.spares import counted_place_note
from tests.controllers.test_node_failure import on_failed_node
from tests.controllers.test_spare_places import IN_PLACE, LOST, lose, running


def test_a_place_is_counted_once_if_the_manager_ends_before_the_pod_is_nominated():
    world = running()
    lose(world)
    pod = world.add(LOST)
    world.store_status_alone()
    assert world.entry == (1, ())
    world.settle()
    assert ([place.pod for place in world.given], world.entry) == ([pod], (1, ()))


def test_a_place_without_a_promise_is_counted_once_as_well():
    world = running()
    world.since_status_write = 0.0
    pod = world.add(LOST)
    for _ in range(2):
        world.store_status_alone()
        assert world.entry == (1, (counted_place_note(pod),))
    world.settle()
    assert ([place.pod for place in world.given], world.entry[0]) == ([pod], 1)
    world.since_status_write = 6.0
    world.settle()
    assert world.entry == (1, ())


def test_a_note_of_a_counted_place_goes_with_the_next_numbers():
    world = running()
    world.since_status_write = 0.0
    world.add(LOST)
    world.settle()
    assert len(world.entry[1]) == 1, "no write for the note alone"
    world.jobs["js-spare-0"]["status"]["ready"] = 0
    world.step()
    assert world.entry == (1, ())


def test_the_note_of_a_pod_that_waits_still_stays_when_numbers_change():
    """Else its place would be counted again."""
    world = running()
    world.since_status_write = 0.0  # the counts of the Jobs may be older
    pod = world.add(LOST)
    world.store_status_alone()
    world.pool = {pod: world.pool[pod]}
    for name in ("js-spare-0", "js-spare-1"):
        world.jobs[name]["status"]["ready"] = 0
    world.settle()
    [entry] = world.status.spares
    assert (entry.ready, world.entry) == (0, (1, (counted_place_note(pod),)))
    world.add("js-spare-0", node="s9")
    world.settle()
    assert ([place.pod for place in world.given], world.entry[0]) == ([pod], 1)


def test_a_note_stays_beside_the_promise_of_the_last_place():
    world = running(1, **IN_PLACE)
    world.since_status_write = 0.0  # the counts of the Jobs may be older
    pod = world.add(LOST)
    world.store_status_alone()
    on_failed_node(world, "js-workers-0")
    world.store_status_alone()
    assert world.entry == (1, ("js-workers-0-0", counted_place_note(pod)))

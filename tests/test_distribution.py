"""Which process of a test run gets which tests (tests/support/distribution.py)."""

from tests.support.distribution import group_of, next_group

FULL, ALONE, APART = "tests/e2e/test_a.py", "tests/integration/test_b.py", "tests/integration/test_crash_sites.py::c"
PURE, LATER = "tests/api/test_d.py", "tests/api/test_e.py"


def test_half_of_the_processes_prefer_the_full_cluster_and_half_an_api_server():
    queue = [FULL, ALONE, PURE, LATER]
    assert [next_group(queue, process) for process in range(4)] == [FULL, ALONE, FULL, ALONE]
    assert next_group([FULL, APART], 1) == APART


def test_when_its_folder_is_done_a_process_takes_what_needs_no_cluster_then_anything():
    assert next_group([ALONE, PURE, LATER], 0) == PURE
    assert next_group([FULL], 1) == FULL


def test_tests_of_a_file_stay_together_and_crash_sites_do_not():
    assert group_of("tests/e2e/test_a.py::test_x[1]") == FULL
    assert group_of("tests/e2e/gangs/test_y.py::test_z") == "tests/e2e/gangs"
    assert group_of(APART) == APART

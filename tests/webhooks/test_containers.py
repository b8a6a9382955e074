"""What the API server stores and no kubelet runs: which commands and media get a warning."""

import pytest

from api.features import FeatureGates
from app.engine import engine
from tests.support.objects.jobsets import jobset, rjob

ENGINE = engine(FeatureGates())
MAIN = {"name": "main", "image": "busybox"}


def fixes(**pod: object) -> list[str]:
    found = ENGINE.findings_about_new(jobset(rjob(pod=pod)))
    assert not found.errors
    return [error.fix for error in found.warnings]


@pytest.mark.parametrize(
    ("command", "fix"),
    [
        (["python train.py"], 'write ["python", "train.py"]'),
        (["cd /x && ./run"], 'write ["sh", "-c", "cd /x && ./run"]'),
        (["a 'b"], "write each word as an item, or sh, -c and the line"),
        (["a " * 600], "write each word as an item, or sh, -c and the line"),
    ],
)
def test_a_command_line_as_one_word_is_taken_apart(command, fix):
    assert fixes(containers=[{**MAIN, "command": command}]) == [fix]


@pytest.mark.parametrize("command", [[], ["python"], [" python "], ["sh", "-c", "a b"], ["$(TPU_PROGRAM)"]])
def test_other_commands_get_no_warning(command):
    assert fixes(containers=[{**MAIN, "command": command}]) == []


@pytest.mark.parametrize("medium", ["", "Memory", "HugePages", "HugePages-2Mi", None])
def test_media_that_a_kubelet_knows_get_no_warning(medium):
    assert fixes(volumes=[{"name": "x", "emptyDir": {"medium": medium}}, {"name": "y", "emptyDir": {}}]) == []


@pytest.mark.parametrize(
    ("medium", "fix"),
    [
        ("hugepages", 'did you mean "HugePages"?'),
        ("HugePages-x", 'did you mean "HugePages"?'),
        ("tmpfs", "write Memory, or leave it out for the node's disk"),
    ],
)
def test_a_medium_that_none_knows_gets_the_one_that_is_meant(medium, fix):
    assert fixes(volumes=[{"name": "x", "emptyDir": {"medium": medium}}]) == [fix]

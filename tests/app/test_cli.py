"""What all commands of `jobset` have in common."""

import pytest

from app import version


@pytest.mark.parametrize("words", [["--version"], ["version"]])
def test_the_version_is_printed_alone(command, words: list[str]):
    assert command(*words) == (0, f"{version.current()}\n", "")

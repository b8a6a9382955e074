"""Commands of kubectl and helm on the pages can be copied: their words, flags and files exist."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.helm import Helm
from tests.support.pages import ENDS, ROOT, commands

FILE_FLAGS = {"-f", "-k"}


def words_of(program: str) -> Iterator[list[str]]:
    """The words of each command of a program on the pages."""
    for command in commands():
        for found in re.finditer(rf"(?:^|\| |&& ){program} ([a-z].+)", command):
            yield [*itertools.takewhile(lambda word: word not in ENDS, shlex.split(found.group(1), comments=True))]


def unknown(words: list[str], program: Path, texts: dict[tuple[str, ...], str]) -> list[str]:
    """Flags that this command of the program does not have, or its words if there is no such command."""
    verbs = tuple(itertools.takewhile(lambda word: not word.startswith("-"), words))[:2]
    verbs = verbs if verbs[0] in {"rollout", "config", "auth"} else verbs[:1]
    if verbs not in texts:
        asked = [[*verbs, "--help"], ["options"]] if program.name == "kubectl" else [[*verbs, "--help"]]
        texts[verbs] = "".join(_said(program, arguments) for arguments in asked)
    if "Usage:" not in texts[verbs]:
        return list(verbs)
    flags = {word.partition("=")[0] for word in words if re.match(r"-{1,2}[a-z]", word)}
    return sorted(flag for flag in flags if not re.search(rf"(?<![\w-]){flag}(?![\w-])", texts[verbs]))


def _said(program: Path, arguments: list[str]) -> str:
    done = subprocess.run(  # noqa: S603 (a program of the tests)
        [program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def missing(words: list[str]) -> list[str]:
    """Files of the repository that a command names and that are not there."""
    named = [value for flag, value in itertools.pairwise(words) if flag in FILE_FLAGS]
    return [name for name in named if "/" in name and name[0] not in "/<" and not (ROOT / name).exists()]


def test_kubectl_has_all_flags_of_its_commands_on_the_pages(binaries: Path):
    texts: dict[tuple[str, ...], str] = {}
    wrong = {" ".join(words): unknown(words, binaries / "kubectl", texts) for words in words_of("kubectl")}
    assert {command: flags for command, flags in wrong.items() if flags} == {}
    assert len(wrong) > 15


def test_the_files_that_kubectl_is_given_exist():
    wrong = {" ".join(words): missing(words) for words in words_of("kubectl")}
    assert {command: files for command, files in wrong.items() if files} == {}


@pytest.mark.slow
def test_helm_has_all_flags_of_its_commands_on_the_pages(helm: Helm):
    texts: dict[tuple[str, ...], str] = {}
    wrong = {" ".join(words): unknown(words, helm.executable, texts) for words in words_of("helm")}
    assert {command: flags for command, flags in wrong.items() if flags} == {}
    assert len(wrong) > 1

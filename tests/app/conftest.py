"""What tests of the command line share."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml

from app import cli

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `jobset` with the arguments; gives exit code, standard output and error."""

    def run(*args: str) -> tuple[int, str, str]:
        try:
            code = cli.main(args)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes a text, or an object as YAML, into the current directory; gives the file's name."""
    monkeypatch.chdir(tmp_path)

    def write_(body: dict | str, name: str = "f.yaml") -> str:
        text = body if isinstance(body, str) else yaml.safe_dump(body)
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
        return name

    return write_


@pytest.fixture
def validate(command: Command) -> Command:
    """Runs `jobset validate` with the arguments."""
    return partial(command, "validate")

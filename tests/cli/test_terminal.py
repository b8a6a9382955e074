"""What others have written cannot command the terminal of whoever runs a command, and programs read it as it was."""

import argparse
import json
import logging
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from app import logs
from app.control_characters import CONTROL, escape
from cli import main as cli
from cli.check.render import to_yaml
from cli.output import dump
from tests.cli.test_logs_of_pods import a_set, pod
from tests.support.objects.jobsets import jobset

ROOT = Path(cli.__file__).parent.parent
CHARACTERS = [*map(chr, (*range(9), *range(11, 32), *range(127, 160), 0x2028, 0x2029)), *"\u202a\u202e\u2066\u2069"]
HOSTILE = f"a\x1b[2J\x1b]52;c;eA==\x07{''.join(CHARACTERS)}z"
AROUND = re.compile(
    r"__std(out|err)__|\bstd(out|err)\.buffer|\bos\.write\(|\.inner\b|\bunescaped\(sys|\bConsole\(|/dev/tty"
)
ALLOWED = {
    "dev/demo/demo.py": "rich, in colours, about a cluster of our own",
    "cli/terminal.py": "escapes",
    "dev/cluster/progress.py": "a live line of our own words",
}
"""Files that reach a standard stream itself, and why they may."""


def test_each_control_character_is_escaped_and_text_of_people_is_not():
    assert all(escape(char) == f"\\u{ord(char):04x}" for char in CHARACTERS)
    assert escape("tab\tline\nGrüße, 世界, שלום") == "tab\tline\nGrüße, 世界, שלום"


def test_whatever_a_command_writes_is_escaped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def handler(_: argparse.Namespace) -> int:
        for stream in (sys.stdout, sys.stderr):
            print(HOSTILE, file=stream)
            stream.write(HOSTILE)
            stream.writelines([HOSTILE, HOSTILE])
        logging.getLogger("any").error(HOSTILE)
        return 0

    parsed = argparse.Namespace(handler=handler)
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", lambda *_, **__: parsed)
    assert cli.main(["explain"]) == 0
    for text in capsys.readouterr():
        assert text.count("\\u001b[2J") == 4
        assert not CONTROL.search(text)


def test_nothing_reaches_a_standard_stream_by_another_way():
    found = {
        str(file.relative_to(ROOT))
        for folder in ("app", "authoring", "cli", "dev/cluster", "dev/demo", "jobset_controller", "ui")
        for file in (ROOT / folder).rglob("*.py")
        if AROUND.search(file.read_text(encoding="utf-8"))
    }
    assert found == set(ALLOWED)


def at_a_terminal(*words: str) -> str:
    """What a terminal gets from a run of `jobset`, both streams."""
    ours, theirs = pty.openpty()
    run = subprocess.Popen(  # noqa: S603 (ourselves)
        [sys.executable, "-m", "cli", *words], stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT
    )
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 65536):
            text += part
    except OSError:  # the end, as Linux says it
        pass
    os.close(ours)
    run.wait()
    return text.decode().replace("\r\n", "\n")


def test_at_a_terminal_our_colours_are_left_and_no_other_code(tmp_path: Path):
    file = tmp_path / "set.yaml"
    file.write_text(json.dumps(jobset(managedBy=HOSTILE)), encoding="utf-8")
    text = at_a_terminal("validate", str(file))
    assert "\x1b[1;31merror:\x1b[0m" in text
    assert not CONTROL.search(re.sub(r"\x1b\[(0|1|1;3\d)m", "", text))


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_what_programs_read_is_exact(form: str):
    body = {"message": HOSTILE, HOSTILE: [HOSTILE + "\n\n", "ok: \u202e"], "plain": "Grüße"}
    text = dump(body, form)
    assert not CONTROL.search(text)
    assert (json.loads if form == "json" else yaml.safe_load)(text) == body
    assert escape(text) == text


def test_rendered_objects_are_exact():
    body = {"kind": "Job", "metadata": {"annotations": {"a": HOSTILE, "b": f"{HOSTILE}\nmore\n", "c": "one\ntwo\n"}}}
    text = to_yaml(body)
    assert not CONTROL.search(text)
    assert yaml.safe_load(text) == body
    assert "c: |\n" in text


COLOURED = "\x1b[38;5;208mhot\x1b[0m \x1b[7mtext"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (COLOURED, f"{COLOURED}\x1b[0m"),
        ("\x1b]0;title\x07\x1b[2Jgone\x9b5n", "\\u001b]0;title\\u0007\\u001b[2Jgone\\u009b5n"),
        ("10%\r20%\r30%\r", "30%"),
        ("[train-workers-9/9 main] mine\r\u202e", "\\u202e"),
        ("tab\there", "tab\there"),
    ],
)
def test_logs_at_a_terminal_keep_their_colours_and_nothing_else(command, connected, monkeypatch, line: str, shown: str):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    js = a_set()
    connected(js, pod(js, 0, 0)).logs = {("train-workers-0-0", "main"): f"{line}\n"}
    code, out, _ = command("logs", "train")
    assert (code, out) == (0, f"[train-workers-0/0 main] {shown}\n")


def test_logs_that_are_piped_are_what_the_program_wrote(command, connected):
    js = a_set()
    connected(js, pod(js, 0, 0)).logs = {("train-workers-0-0", "main"): f"{COLOURED}\r\x07\u2028\n"}
    assert command("logs", "train")[1] == f"[train-workers-0/0 main] {COLOURED}\r\x07\u2028\n"


@pytest.mark.parametrize("encoder", ["console", "json"])
@pytest.mark.parametrize("colors", [True, False])
def test_log_lines_hold_no_control_characters(encoder: str, colors: bool):
    error = ValueError(HOSTILE)
    record = logging.LogRecord("any", logging.ERROR, "f", 1, "said: %s", (HOSTILE,), (ValueError, error, None))
    record.field = HOSTILE
    line = logs.formatter(logs.parse(encoder=encoder), colors=colors).format(record)
    assert not CONTROL.search(line.replace("\x1b[31m", "").replace("\x1b[0m", ""))
    if encoder == "json":
        assert json.loads(line)["msg"] == f"said: {HOSTILE}"

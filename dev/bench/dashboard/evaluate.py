"""The results of the dashboard's queries: promtool evaluates them over the scraped series.

It is asked as for a test of rules in which no query has a result, and says what each has instead.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from dev.bench.dashboard.scrape import EVERY, Scrapes
from dev.bench.scene import BenchmarkError
from dev.cluster.programs import locate_program
from dev.cluster.promtool import PROMTOOL

STEP = 2
"""Seconds between two points of a line."""

RATE_INTERVAL = "15s"
"""The value that Grafana fills in: at least four intervals between scrapes."""

MOMENTS = ("jobset_certificate_expiry_seconds",)
"""Metrics that are points in time. promtool's time begins with 0, so theirs has to as well."""

Lines = dict[str, list[tuple[float, float]]]
"""Points of each line by its labels, as in `{pod="a"}`: seconds since the first scrape, and the value."""

_EXPRESSION = re.compile(r'expr: (".*"), time: ((?:\d+h)?(?:\d+m)?(?:\d+s)?),')
_SAMPLE = re.compile(r"(\{[^}]*\}) (\S+?)(?:,|$)")


def evaluate(expressions: Iterable[str], scrapes: Scrapes, job: str) -> dict[str, Lines]:
    """The lines of each expression of the dashboard. Raises `BenchmarkError` if promtool cannot read one."""
    filled = {each: each.replace("$__rate_interval", RATE_INTERVAL).replace("$job", job) for each in expressions}
    asked = [
        {"expr": expression, "eval_time": f"{second}s", "exp_samples": []}
        for expression in set(filled.values())
        for second in range(0, int(scrapes.count * EVERY), STEP)
    ]
    names = {name for expression in filled.values() for name in re.findall(r"\w+", expression)}
    inputs = [
        {
            "series": name + "{" + ", ".join(f"{key}={json.dumps(value)}" for key, value in labels) + "}",
            "values": scrapes.notation((name, labels), scrapes.started if name in MOMENTS else 0.0),
        }
        for name, labels in scrapes.values
        if name in names
    ]
    test = {"interval": f"{EVERY:g}s", "input_series": inputs, "promql_expr_test": asked}
    said = _promtool({"rule_files": [], "evaluation_interval": f"{EVERY:g}s", "tests": [test]})
    found = results(said)
    return {each: found.get(expression, {}) for each, expression in filled.items()}


def _promtool(document: object) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tests.yaml")
        path.write_text(json.dumps(document))
        command = [str(locate_program(PROMTOOL)), "test", "rules", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - built by us
    said = done.stdout + done.stderr
    if done.returncode and "got:" not in said:
        raise BenchmarkError(f"promtool: {said.strip()[:1000]}")
    return said


def results(said: str) -> dict[str, Lines]:
    """The samples of each expression at each time, from the output of promtool."""
    found: dict[str, Lines] = defaultdict(lambda: defaultdict(list))
    expression, second = "", 0.0
    for line in said.splitlines():
        text = line.strip()
        if asked := _EXPRESSION.match(text):
            expression, second = json.loads(asked[1]), seconds(asked[2])
        elif text.startswith("got:"):
            for labels, value in _SAMPLE.findall(text):
                found[expression][labels].append((second, float(value)))
        elif "error" in text.lower():
            raise BenchmarkError(f"promtool: {text[:1000]}")
    return {each: dict(lines) for each, lines in found.items()}


def seconds(duration: str) -> float:
    """`1m5s` is 65."""
    return float(sum(int(n) * {"h": 3600, "m": 60, "s": 1}[unit] for n, unit in re.findall(r"(\d+)([hms])", duration)))

"""The picture of the dashboard: what promtool is asked, what it says, and what is drawn."""

from __future__ import annotations

import pytest

from dev.bench.dashboard.evaluate import evaluate, results, seconds
from dev.bench.dashboard.panels import queries
from dev.bench.dashboard.picture import FORMATS, draw, legend
from dev.bench.dashboard.scrape import Scrapes
from dev.bench.scene import BenchmarkError

LABELS = ("code", "controller", "method", "name", "pod", "result", "rule", "webhook")

SAID = """
  FAILED:
    expr: "sum by (pod) (m{job=\\"x\\"})", time: 1m4s,
        exp: nil
        got: {pod="a", code="<error>"} 2.5E-01, {pod="b"} NaN
    expr: "m or vector(1)", time: 5s,
        exp: nil
        got: {} 1E+00
"""


def test_scrapes_keep_what_was_there_and_say_when_it_was_gone():
    scrapes = Scrapes()
    answers = ["", "m 1\n", 'm 3\nn{code="200"} NaN\n', ""]
    for text in answers:
        scrapes.add(text, {"pod": "a"})
        scrapes.count += 1
    m, n = ("m", (("pod", "a"),)), ("n", (("code", "200"), ("pod", "a")))
    assert scrapes.notation(m) == "_ 1.0 3.0 stale"
    assert scrapes.notation(m, since=1.0) == "_ 0.0 2.0 stale"
    assert scrapes.notation(n) == "_ _ _ stale"


def test_what_promtool_says_is_read():
    found = results(SAID)
    assert found['sum by (pod) (m{job="x"})']['{pod="a", code="<error>"}'] == [(64, 0.25)]
    assert found["m or vector(1)"] == {"{}": [(5, 1)]}
    with pytest.raises(BenchmarkError, match="parse error"):
        results('  expr: "m(": parse error: unclosed left parenthesis')
    assert [seconds(text) for text in ("0s", "2s", "1m", "1h0m5s")] == [0, 2, 60, 3605]


@pytest.mark.slow
def test_every_panel_is_drawn_with_its_lines_and_the_same_again(tmp_path):
    labels = "{" + ", ".join(f'{name}="here"' for name in LABELS) + "}"
    lines = {query.expression: {labels: [(0.0, 1.0), (2.0, 3.0)]} for _, query in queries()}
    first, other = tmp_path / "one.svg", tmp_path / "other.svg"
    draw(lines, 10, first)
    draw(lines, 10, other)
    picture = first.read_text()
    assert picture == other.read_text()
    assert "no data" not in picture
    assert all(panel.title in picture for panel, _ in queries())
    assert {panel.unit for panel, _ in queries()} <= FORMATS.keys()
    draw({key: {} for key in lines}, 10, first)
    assert first.read_text().count("no data") == len({panel.title for panel, _ in queries()})


def test_legends_are_filled():
    assert legend("{{pod}} mean", '{code="1", pod="a-b"}') == "a-b mean"
    assert legend("restarts", "{}") == "restarts"


@pytest.mark.slow
def test_promtool_evaluates_over_scrapes():
    """The first run on a machine builds promtool."""
    scrapes = Scrapes(started=1000.0)
    for i in range(4):
        scrapes.add(f"jobset_certificate_expiry_seconds {1000 + 86400}\nm_total {10 * i}\n", {"job": "x"})
        scrapes.count += 1
    asked = [
        'sum(rate(m_total{job="$job"}[$__rate_interval]))',
        "jobset_certificate_expiry_seconds - time()",
        "missing",
    ]
    rate, left, missing = evaluate(asked, scrapes, "x").values()
    assert rate == {"{}": [(2.0, pytest.approx(20 / 15))]}
    assert list(left.values()) == [[(0.0, 86400.0), (2.0, 86398.0)]]
    assert missing == {}

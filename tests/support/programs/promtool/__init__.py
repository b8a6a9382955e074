"""promtool of Prometheus, from the Go modules that go.mod pins. For the tests of alerts and dashboard."""

from pathlib import Path

from tests.support.programs import Program

PROMTOOL = Program(
    "promtool",
    Path(__file__).parent,
    "github.com/prometheus/prometheus/cmd/promtool",
    # Without the clouds in which Prometheus looks for targets: rules need none, and they are most of what is compiled.
    flags=("-tags", "remove_all_sd"),
)

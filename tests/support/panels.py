"""The panels of the chart's dashboard for Grafana (docs/observability.md), and their queries."""

from pathlib import Path

import msgspec

FILE = Path(__file__).parents[2] / "charts/jobset/dashboards/jobset.json"


class Query(msgspec.Struct):
    """A line, or with labels in `legend` (`{{name}}`) several. `expression` is PromQL with Grafana's variables."""

    legend: str = msgspec.field(name="legendFormat")
    expression: str = msgspec.field(name="expr")


class Panel(msgspec.Struct):
    """A chart over time; a headline has no queries."""

    title: str
    queries: list[Query] = msgspec.field(name="targets", default_factory=list)


class _Dashboard(msgspec.Struct):
    panels: list[Panel]


def queries() -> list[tuple[Panel, Query]]:
    """Every query, and the panel that it is in."""
    panels = msgspec.json.decode(FILE.read_bytes(), type=_Dashboard).panels
    return [(panel, query) for panel in panels for query in panel.queries]

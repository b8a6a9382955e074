"""The dashboard for Grafana in the chart (docs/observability.md): its rows, panels and queries."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

FILE = Path(__file__).parents[3] / "charts/jobset/dashboards/jobset.json"


class Query(msgspec.Struct):
    """A line, or with labels in `legend` (`{{name}}`) several. `expression` is PromQL with Grafana's variables."""

    legend: str = msgspec.field(name="legendFormat")
    expression: str = msgspec.field(name="expr")


class Panel(msgspec.Struct, rename="camel"):
    """A chart over time, or a headline of those after it."""

    type: str
    title: str
    field_config: dict[str, Any] = {}
    queries: list[Query] = msgspec.field(name="targets", default_factory=list)

    @property
    def unit(self) -> str:
        """Grafana's id of a unit."""
        return str(self.field_config["defaults"]["unit"])


class _Dashboard(msgspec.Struct):
    panels: list[Panel]


class Row(msgspec.Struct):
    """Panels under a headline."""

    title: str
    panels: list[Panel] = []


def _rows() -> list[Row]:
    found: list[Row] = []
    for panel in msgspec.json.decode(FILE.read_bytes(), type=_Dashboard).panels:
        if panel.type == "row":
            found.append(Row(panel.title))
        else:
            found[-1].panels.append(panel)
    return found


ROWS = _rows()


def queries() -> Iterable[tuple[Panel, Query]]:
    """Every query, and the panel that it is in."""
    return ((panel, query) for row in ROWS for panel in row.panels for query in panel.queries)

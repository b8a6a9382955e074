"""The dashboard as an SVG picture: its rows, panels, units and legends. Must not measure."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import EngFormatter, Formatter, MaxNLocator, PercentFormatter, StrMethodFormatter

from dev.bench.dashboard.evaluate import Lines
from dev.bench.dashboard.panels import ROWS, Panel

COLUMNS = 3
PANEL_INCHES = (4.3, 2.3)
LONG = 24
"""Characters of a legend from which on there is one in a line."""

FORMATS: Mapping[str, Formatter] = {
    "s": EngFormatter("s"),
    "bytes": EngFormatter("B"),
    "percentunit": PercentFormatter(1),
    "d": StrMethodFormatter("{x:g} d"),
    "ops": StrMethodFormatter("{x:g}/s"),
    "reqps": StrMethodFormatter("{x:g}/s"),
    "short": StrMethodFormatter("{x:g}"),
}
"""By Grafana's ids of units."""


def draw(lines: Mapping[str, Lines], seconds: float, path: Path) -> None:
    """Write the picture; `lines` are those of each expression, the time goes from 0 to `seconds`."""
    heights = [math.ceil(len(row.panels) / COLUMNS) for row in ROWS]
    # The same data give the same file: no random ids, no dates.
    with mpl.rc_context({"svg.hashsalt": "dashboard", "svg.fonttype": "none", "font.size": 8}):
        size = COLUMNS * PANEL_INCHES[0], sum(heights) * PANEL_INCHES[1]
        figure = Figure(figsize=size, layout="constrained")
        parts = cast("list[SubFigure]", figure.subfigures(len(ROWS), 1, height_ratios=heights, squeeze=False)[:, 0])
        for row, part, height in zip(ROWS, parts, heights, strict=True):
            part.suptitle(row.title, x=0.01, ha="left", fontweight="bold", fontsize=10)
            places = part.subplots(height, COLUMNS, squeeze=False).flatten()
            for place in places[len(row.panels) :]:
                place.set_axis_off()
            for place, panel in zip(places, row.panels, strict=False):
                _panel(place, panel, lines, seconds)
        figure.savefig(path, metadata={"Date": None})


def _panel(axes: Axes, panel: Panel, lines: Mapping[str, Lines], seconds: float) -> None:
    axes.set_title(panel.title, loc="left", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    highest = 0.0
    for query in panel.queries:
        for labels, points in sorted(lines[query.expression].items()):
            shown = [(at, value) for at, value in points if math.isfinite(value)]
            if shown:
                highest = max(highest, *(value for _, value in shown))
                axes.plot(*zip(*shown, strict=True), label=legend(query.legend, labels), linewidth=1)
    axes.set_xlim(0, seconds)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g} s"))
    if axes.lines:
        axes.set_ylim(0, None if highest else 1)
        if panel.unit == "short":
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(copy.copy(FORMATS[panel.unit]))
        long = any(len(str(line.get_label())) > LONG for line in axes.lines)
        axes.legend(fontsize=6, framealpha=0.6, ncols=1 if long else 2).set_in_layout(False)
    else:
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center")


def legend(template: str, labels: str) -> str:
    """Grafana's template, such as `{{pod}} mean`, filled from labels as in `{pod="a"}`."""
    known = dict(re.findall(r'(\w+)="([^"]*)"', labels))
    return re.sub(r"{{(\w+)}}", lambda found: known.get(found[1], ""), template)

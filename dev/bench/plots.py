"""Draws the pictures of a run as SVG: times, calls, memory."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from dev.bench.report import Spread, figures_by_round, manager_names, phase_names
from kube.model.meta import JSON

WIDTH = 0.8
"""Width of all bars of a group."""

CALLS = {"creates": "Jobs created", "deletes": "deletions", "status_writes": "status writes"}
OTHER = "other requests"


def draw(results: JSON, folder: Path) -> list[Path]:
    """Write every picture that has data. Returns the paths."""
    with _reproducible():
        pictures = {
            "times": _draw_spreads(results, "seconds", "seconds until all pods run (median, range)"),
            "calls": _draw_calls(results),
            "memory": _draw_spreads(results, "peak_rss_mib", "peak RSS in MiB (median, range)"),
        }
        return [_save(figure, folder / f"{name}.svg") for name, figure in pictures.items() if figure]


def draw_ratios(ratios: Mapping[str, Sequence[tuple[str, float]]], folder: Path) -> Path:
    """Write the picture of ratios over runs, with a line for each phase. Points are (run, ratio). Returns the path."""
    runs = list(dict.fromkeys(run for points in ratios.values() for run, _ in points))
    with _reproducible():
        figure, axes = _empty_figure(len(runs) + 4)
        for name, points in ratios.items():
            positions = [runs.index(run) for run, _ in points]
            axes.plot(positions, [ratio for _, ratio in points], marker="o", label=name)
        axes.axhline(1, color="gray", linewidth=0.8)
        axes.set_xticks(range(len(runs)), runs, rotation=30, ha="right")
        axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
        axes.set_title("seconds over those of the floor, or of plain pods (medians)", loc="left")
        return _save(figure, folder / "ratios.svg")


def _reproducible() -> AbstractContextManager[None]:
    """A context with settings for reproducible files, without random ids and dates."""
    return mpl.rc_context({"svg.hashsalt": "bench", "svg.fonttype": "none", "font.size": 9})


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    return path


def _empty_figure(groups: int) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(max(6, 0.9 * groups + 2), 4))
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    return figure, axes


def _draw_groups(
    results: JSON,
    title: str,
    texts: Sequence[str],
    left_out: str,
    draw_bar: Callable[[Axes, list[JSON], int, float], None],
) -> Figure | None:
    """A figure with a group of bars for each phase, and in the group a bar for each manager; None without phases.

    `draw_bar` gets the axes, the figures of the phase in each round, the number of the manager, and the position of the
    bar. `texts` are the texts of the legend. `left_out` is the beginning of the names of phases
    that are left out.
    """
    phases = [name for name in phase_names(results) if not name.startswith(left_out)]
    if not phases:
        return None
    figure, axes = _empty_figure(len(phases))
    managers = manager_names(results)
    for group, name in enumerate(phases):
        for number, manager in enumerate(managers):
            position = group + (number - (len(managers) - 1) / 2) * WIDTH / len(managers)
            if phases_of_manager := list(figures_by_round(results, manager, name).values()):
                draw_bar(axes, phases_of_manager, number, position)
    axes.set_xticks(range(len(phases)), phases, rotation=30, ha="right")
    axes.legend(handles=[Patch(color=f"C{n}", label=text) for n, text in enumerate(texts)], frameon=False)
    axes.set_title(title, loc="left")
    return figure


def _draw_spreads(results: JSON, key: str, title: str) -> Figure | None:
    """The picture of a figure's median with its range. P6 large is left out, since it would dwarf all other phases."""
    managers = manager_names(results)

    def draw_bar(axes: Axes, phases: list[JSON], number: int, position: float) -> None:
        if spread := Spread.at(phases, key):
            errors = [[spread.median - spread.low], [spread.high - spread.median]]
            axes.bar(position, spread.median, WIDTH / len(managers), yerr=errors, color=f"C{number}", capsize=2)

    return _draw_groups(results, title, managers, "P6 large", draw_bar)


def _draw_calls(results: JSON) -> Figure | None:
    """The picture of the requests of each manager, stacked, as the median of the rounds."""
    managers = manager_names(results)

    def draw_bar(axes: Axes, phases: list[JSON], number: int, position: float) -> None:
        bottom = 0.0
        for index, key in enumerate([*CALLS, OTHER]):
            height = statistics.median(_count(phase["manager"], key) for phase in phases)
            axes.bar(position, height, WIDTH / len(managers) * 0.95, bottom=bottom, color=f"C{index}")
            bottom += height
        axes.annotate(managers[number], (position, bottom), rotation=90, fontsize=6, ha="center", va="bottom")

    title = "requests of the manager to the API server, watches apart (median)"
    return _draw_groups(results, title, [*CALLS.values(), OTHER], "P6", draw_bar)


def _count(manager: JSON, key: str) -> int:
    return int(manager[key] if key in CALLS else manager["requests"] - sum(manager[call] for call in CALLS))

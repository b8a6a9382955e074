"""Label selectors on labels at hand, for the models: read as the simulated API server of the benchmark reads them."""

from __future__ import annotations

from collections.abc import Mapping

from bench.simulated.selectors import parse


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether an object with those labels is selected. Raises `SelectorError` for what the API server would refuse."""
    return parse(selector).met(labels.get)

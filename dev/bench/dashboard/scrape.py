"""Metrics of several replicas, scraped again and again as by Prometheus. Must not know what they mean."""

from __future__ import annotations

import contextlib
import math
import ssl
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

EVERY = 1.0
"""Seconds between two scrapes."""

TIMEOUT_SECONDS = 5

Series = tuple[str, tuple[tuple[str, str], ...]]
"""Name and labels."""


@dataclass(slots=True)
class Scrapes:
    """Values of each series by the number of their scrape. `started` is in seconds since 1970."""

    started: float = field(default_factory=time.time)
    count: int = 0
    values: dict[Series, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, text: str, labels: Mapping[str, str]) -> None:
        """Take in an answer, with more labels for its series, as the newest scrape's."""
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                series = sample.name, tuple(sorted({**sample.labels, **labels}.items()))
                self.values[series][self.count] = sample.value

    def notation(self, series: Series, since: float = 0.0) -> str:
        """Its values less `since` in promtool's notation: `_` before the first, `stale` after the last."""
        known = self.values[series]
        return " ".join(
            f"{known[i] - since!r}" if i in known and math.isfinite(known[i]) else "stale" if i - 1 in known else "_"
            for i in range(self.count)
        )


@contextlib.contextmanager
def scraping(ports: Mapping[str, int], token: str, labels: Mapping[str, str]) -> Iterator[Scrapes]:
    """Scrape replicas until the block ends, those that answer. `ports` has those on the loopback interface by pod."""
    scrapes, over = Scrapes(), threading.Event()
    trusting = ssl._create_unverified_context()  # noqa: S323, SLF001 - a certificate of the manager's own making

    def read(port: int) -> str:
        request = urllib.request.Request(
            f"https://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, context=trusting, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - https
            return str(answer.read().decode())

    def scrape() -> None:
        while not over.is_set():
            for pod, port in ports.items():
                with contextlib.suppress(OSError):
                    scrapes.add(read(port), {**labels, "pod": pod})
            scrapes.count += 1
            over.wait(max(0.0, scrapes.started + scrapes.count * EVERY - time.time()))

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield scrapes
    finally:
        over.set()
        thread.join()

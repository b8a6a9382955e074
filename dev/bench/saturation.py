"""Measures the largest number of reviews a second that an admission server answers: P8 (mutate) and P9 (validate).

`make bench-admission ARGS=--saturation` measures a server without a cluster. `measure` measures any manager that runs
already. Reviews are creations of JobSets that differ in name and UID. A manager has to run without the child dry run,
with which the speed of the API server would be measured.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from dev.bench import proc
from dev.bench.admission import samples
from dev.bench.load_generator import Load, Review, run
from dev.bench.output import Columns
from kube.model.meta import JSON
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH

CONNECTIONS = (1, 16, 64)
SIZES = {"2 KB": (1, 0), "20 KB": (8, 21)}
"""Numbers of ReplicatedJobs, and of environment variables of each, that make a review of about this size."""

LOAD_SECONDS = 5.0
REVIEW_COUNT = 64
"""Number of JobSets that are sent in turn."""


def measure(
    port: int,
    ca_file: Path,
    seconds: float = LOAD_SECONDS,
    connections: Sequence[int] = CONNECTIONS,
    sizes: Sequence[str] = tuple(SIZES),
    *,
    pid: int | None = None,
) -> list[JSON]:
    """A row for each webhook, size and number of connections.

    A row has the report of `dev.bench.load_generator.run`, `webhook`, `size`, `bytes` of a review and `connections`.
    With `pid`, it also has `cpu_us`, the processor time of the server and its children for one request, and their
    `rss_mib`.
    """
    return [
        {"webhook": webhook, "size": size, **_row(port, ca_file, path, size, Load(count, seconds, seconds / 5), pid)}
        for webhook, path in (("mutate", MUTATE_PATH), ("validate", VALIDATE_PATH))
        for size in sizes
        for count in connections
    ]


def _row(port: int, ca_file: Path, path: str, size_name: str, load: Load, pid: int | None) -> JSON:
    sent_reviews = list(reviews(path, *SIZES[size_name]))
    cpu_before = proc.cpu_seconds(pid) if pid else 0.0
    size = len(sent_reviews[0][1])
    report = {"bytes": size, "connections": load.connections, **run(port, ca_file, sent_reviews, load)}
    if pid:
        cpu_used = proc.cpu_seconds(pid) - cpu_before
        report |= {"cpu_us": cpu_used * 1e6 / max(report["answered"], 1), "rss_mib": proc.memory_mib(pid)}
    return report


def reviews(path: str, rjobs: int, env: int) -> Iterator[Review]:
    """Yield reviews as the API server sends them. A validating webhook gets JobSets with defaults."""
    for i in range(REVIEW_COUNT):
        js = samples.jobset(rjobs, env)
        js["metadata"]["name"] += f"-{i:02}"
        complete = samples.with_defaults(js) if path == VALIDATE_PATH else js
        yield path, samples.review(complete, uid=f"705ab4f5-6393-11e8-b7cc-{i:012}")


COLUMNS: Columns = {
    "webhook": ("webhook", "s"),
    "size": ("size", "s"),
    "conns": ("connections", "d"),
    "req/s": ("per_s", ",.0f"),
    "p50": ("p50_ms", ".2f"),
    "p99": ("p99_ms", ".2f"),
    "refused": ("refused", "d"),
    "lost": ("lost", "d"),
    "CPU": ("cpu_us", ".0f"),
    "RSS": ("rss_mib", ".0f"),
}
UNITS = "p50, p99: milliseconds; CPU: microseconds of the server for one request; RSS: MiB"

"""Metrics of how JobSets end, under the names that dashboards of the Go JobSet use (docs/reference/metrics.md)."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter


class OutcomeHooks:
    """Implements `controllers.jobset.endings.Outcomes`: ends of JobSets by name, and the costs of failures in total."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        set_counter = partial(counter, labelnames=("jobset_name", "namespace"))
        self._by_state = {
            "Failed": set_counter("jobset_failed_total", "The total number of failed JobSets"),
            "Completed": set_counter("jobset_completed_total", "The total number of completed JobSets"),
        }
        self._deadline_exceeded = set_counter(
            "jobset_active_deadline_exceeded_total", "The total number of JobSets that failed by their deadline"
        )
        self._start_timed_out = set_counter(
            "jobset_start_timeouts_total", "The total number of attempts that ended because a pod did not run in time"
        )
        self._node_failures = counter(
            "jobset_node_failures_total", "The total number of attempts that a failed node ended"
        )
        self._running_seconds = counter(
            "jobset_running_seconds_total", "Seconds that JobSets ran, all their Jobs ready or done"
        )
        self._lost_seconds = counter("jobset_lost_seconds_total", "Seconds that JobSets were to run and did not")

    def on_end(self, namespace: str, name: str, state: str) -> None:
        """`state` is the terminal state: Completed or Failed."""
        self._by_state[state].labels(name, namespace).inc()

    def deadline_exceeded(self, namespace: str, name: str) -> None:
        """Count a JobSet that failed by its deadline. `on_end` has counted it as failed."""
        self._deadline_exceeded.labels(name, namespace).inc()

    def start_timed_out(self, namespace: str, name: str) -> None:
        """Count an attempt of the JobSet that ended because a pod did not run in time."""
        self._start_timed_out.labels(name, namespace).inc()

    def node_failed(self) -> None:
        """Count an attempt of a JobSet that ended because of a node."""
        self._node_failures.inc()

    def on_seconds(self, running: int, lost: int) -> None:
        """Add seconds that a JobSet has run or lost."""
        self._running_seconds.inc(running)
        self._lost_seconds.inc(lost)

    def forget(self, namespace: str, name: str) -> None:
        """Drop the series of a deleted JobSet. Otherwise memory would grow with every JobSet."""
        for counter in (*self._by_state.values(), self._deadline_exceeded, self._start_timed_out):
            counter.remove(name, namespace)

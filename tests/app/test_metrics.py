"""A rendered scrape has exactly the names, types, labels and values that dashboards rely on."""

import asyncio
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.metrics import CONTENT_TYPE, Metrics
from app.policy_metrics import MAX_POLICIES
from controllers.jobset.endings import Outcomes
from controllers.jobset.milestones import Milestones
from kube.calls import count_request
from kube.controller import Controller, Request, Result
from kube.controller_metrics import ControllerMetrics
from kube.errors import BadRequest, Status
from kube.transport import RequestMetrics
from kube.workqueue import LOW_PRIORITY, QueueMetrics, WorkQueue
from policy.kinds import PolicyId
from webhooks.metrics import WebhookMetrics

KEY = Request("team-a", "train")
OUTCOMES = (
    "jobset_failed_total",
    "jobset_completed_total",
    "jobset_active_deadline_exceeded_total",
    "jobset_start_timeouts_total",
)
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def documented() -> dict[str, tuple[str, set[str]]]:
    """The tables of the page: name -> (type, labels)."""
    rows = re.findall(r"^\| `([a-z_]+)` \| (\w+) \|([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    assert len({name for name, _, _ in rows}) == len(rows), "a metric is described twice"
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


TYPES = {name: kind for name, (kind, _) in documented().items()}


def scrape(metrics: Metrics) -> dict[str, float]:
    """Every sample line of a scrape: `name{labels sorted}` -> value. Fails on a line that is there twice."""
    body, content_type = metrics.render()
    assert content_type == CONTENT_TYPE
    found: dict[str, float] = {}
    for line in body.decode().splitlines():
        if not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            assert series not in found
            found[series] = float(value)
    return found


def test_every_type_line_is_exact() -> None:
    lines = [line for line in Metrics().render()[0].decode().splitlines() if line.startswith("# TYPE ")]
    assert dict(line.removeprefix("# TYPE ").split() for line in lines) == TYPES
    assert len(lines) == len(TYPES)


def test_help_of_the_two_jobset_counters_is_exact() -> None:
    text = Metrics().render()[0].decode()
    assert "# HELP jobset_failed_total The total number of failed JobSets\n" in text
    assert "# HELP jobset_completed_total The total number of completed JobSets\n" in text


async def test_a_scrape_is_valid_prometheus_text() -> None:
    metrics = Metrics()
    metrics.outcomes.on_end('odd"ns\n', "back\\slash", "Failed")
    families = {f.name: f for f in text_string_to_metric_families(metrics.render()[0].decode())}
    assert families["jobset_failed"].samples[0].labels == {"namespace": 'odd"ns\n', "jobset_name": "back\\slash"}


def test_hooks_fulfil_the_protocols_of_the_packages_below() -> None:
    metrics = Metrics()
    queue: QueueMetrics = metrics.queue("jobset")
    controller: ControllerMetrics = metrics.controller("jobset", 1)
    requests: RequestMetrics = metrics.requests
    webhooks: WebhookMetrics = metrics.webhooks
    outcomes: Outcomes = metrics.outcomes
    milestones: Milestones = metrics.milestones
    assert all((queue, controller, requests, webhooks, outcomes, milestones))


def test_two_managers_in_one_process_do_not_share_metrics() -> None:
    one, other = Metrics(), Metrics()
    one.outcomes.on_end("a", "x", "Failed")
    assert 'jobset_failed_total{jobset_name="x",namespace="a"}' not in scrape(other)


def test_outcomes_count_once_and_are_dropped_with_the_jobset() -> None:
    metrics = Metrics()
    for name, state in (("x", "Failed"), ("x", "Completed"), ("y", "Completed"), ("y", "Completed")):
        metrics.outcomes.on_end("a", name, state)
    metrics.outcomes.deadline_exceeded("a", "x")
    metrics.outcomes.start_timed_out("a", "x")
    found = {series: value for series, value in scrape(metrics).items() if series.startswith(OUTCOMES)}
    assert found == {
        'jobset_failed_total{jobset_name="x",namespace="a"}': 1,
        'jobset_completed_total{jobset_name="x",namespace="a"}': 1,
        'jobset_completed_total{jobset_name="y",namespace="a"}': 2,
        'jobset_active_deadline_exceeded_total{jobset_name="x",namespace="a"}': 1,
        'jobset_start_timeouts_total{jobset_name="x",namespace="a"}': 1,
    }
    metrics.outcomes.forget("a", "x")
    metrics.outcomes.forget("a", "never-finished")
    assert [s for s in scrape(metrics) if s.startswith(OUTCOMES)] == [
        'jobset_completed_total{jobset_name="y",namespace="a"}'
    ]


def test_what_failures_cost_is_counted_without_names() -> None:
    metrics = Metrics()
    metrics.outcomes.node_failed()
    metrics.outcomes.on_seconds(60, 7)
    metrics.outcomes.on_seconds(0, 3)
    found = scrape(metrics)
    assert found["jobset_node_failures_total"] == 1
    assert (found["jobset_running_seconds_total"], found["jobset_lost_seconds_total"]) == (60, 10)


def test_series_of_deleted_jobsets_do_not_pile_up() -> None:
    metrics = Metrics()
    before = len(scrape(metrics))
    for number in range(1000):
        metrics.outcomes.on_end("a", f"run-{number}", "Completed")
        metrics.outcomes.forget("a", f"run-{number}")
    assert len(scrape(metrics)) == before


def test_controller_series_exist_at_zero_from_the_start() -> None:
    metrics = Metrics()
    metrics.controller("jobset", 8)
    found = scrape(metrics)
    for result in ("success", "error", "requeue", "requeue_after"):
        assert found[f'controller_runtime_reconcile_total{{controller="jobset",result="{result}"}}'] == 0
    for what in ("reconcile_errors_total", "reconcile_panics_total", "terminal_reconcile_errors_total"):
        assert found[f'controller_runtime_{what}{{controller="jobset"}}'] == 0
    assert found['controller_runtime_active_workers{controller="jobset"}'] == 0
    assert found['controller_runtime_max_concurrent_reconciles{controller="jobset"}'] == 8


def bounds(found: dict[str, float], name: str) -> list[str]:
    """The upper bounds of the one histogram of that name."""
    prefix = f"{name}_bucket{{"
    return [s.split('le="')[1].split('"')[0] for s in found if s.startswith(prefix)]


def test_decisions_of_policies_have_a_bounded_number_of_series() -> None:
    metrics = Metrics()
    for number in range(MAX_POLICIES + 3):
        metrics.webhooks.count_decision(PolicyId(f"limits-{number}", "1"), "maxJobs", "Deny", 2)
    series = {name: value for name, value in scrape(metrics).items() if name.startswith("jobset_policy_decisions")}
    assert len(series) == MAX_POLICIES + 1
    name = 'jobset_policy_decisions_total{{action="Deny",policy="{}",rule="maxJobs"}}'
    assert (series[name.format("limits-0")], series[name.format("(others)")]) == (2, 6)


def test_what_happens_to_exceptions_is_counted_by_policy() -> None:
    metrics = Metrics()
    for action in ("FirstUsed", "Expired", "Expired"):
        metrics.webhooks.exception("limits", action)
    metrics.webhooks.record_exception_use("team-a", "big-run", "uid")
    found = {name: value for name, value in scrape(metrics).items() if name.startswith("jobset_policy_exceptions")}
    assert found == {
        'jobset_policy_exceptions_total{action="FirstUsed",policy="limits"}': 1,
        'jobset_policy_exceptions_total{action="Expired",policy="limits"}': 2,
    }


def test_times_of_jobsets_have_no_labels_and_are_there_from_the_start() -> None:
    metrics = Metrics()
    for name in ("jobset_jobs_created_seconds", "jobset_ready_seconds", "jobset_restart_seconds"):
        found = scrape(metrics)
        assert found[f"{name}_count"] == 0
        upper = [float(bound) for bound in bounds(found, name)]
        assert (upper[0], upper[-2], upper[-1]) == (0.1, 3600, float("inf"))
    metrics.milestones.on_created(0.4)
    metrics.milestones.on_ready(29)
    metrics.milestones.on_restarted(4000)
    found = scrape(metrics)
    assert found['jobset_jobs_created_seconds_bucket{le="0.25"}'] == 0
    assert found['jobset_jobs_created_seconds_bucket{le="0.5"}'] == 1
    assert found["jobset_ready_seconds_sum"] == 29
    assert found['jobset_restart_seconds_bucket{le="3600.0"}'] == 0
    assert found["jobset_restart_seconds_count"] == 1


def test_histogram_buckets() -> None:
    metrics = Metrics()
    controller = metrics.controller("c", 1)
    controller.on_reconcile("success", 0.3)
    controller.on_requests(0)
    controller.on_requests(7)
    metrics.queue("c").on_take(0.0005)
    found = scrape(metrics)

    spec = (
        "0.005 0.01 0.025 0.05 0.1 0.15 0.2 0.25 0.3 0.35 0.4 0.45 0.5 0.6 0.7 0.8 0.9 1.0 1.25 1.5 1.75 2.0 2.5 3.0"
        " 3.5 4.0 4.5 5.0 6.0 7.0 8.0 9.0 10.0 15.0 20.0 25.0 30.0 40.0 50.0 60.0 +Inf"
    )
    assert bounds(found, "controller_runtime_reconcile_time_seconds") == spec.split()
    assert found['controller_runtime_reconcile_time_seconds_bucket{controller="c",le="0.3"}'] == 1
    assert found['controller_runtime_reconcile_time_seconds_bucket{controller="c",le="0.25"}'] == 0
    assert [float(b) for b in bounds(found, "workqueue_queue_duration_seconds")] == pytest.approx(
        [10.0**e for e in range(-8, 4)] + [float("inf")]
    )
    assert found['workqueue_queue_duration_seconds_sum{controller="c",name="c"}'] == 0.0005
    calls = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, float("inf")]
    assert [float(b) for b in bounds(found, "jobset_reconcile_api_calls")] == calls
    assert found['jobset_reconcile_api_calls_bucket{controller="c",le="0.0"}'] == 1
    assert found['jobset_reconcile_api_calls_bucket{controller="c",le="5.0"}'] == 1
    assert found['jobset_reconcile_api_calls_bucket{controller="c",le="10.0"}'] == 2


async def test_queue_gauges_are_those_of_the_real_queue_at_scrape_time() -> None:
    now = 100.0
    metrics = Metrics()
    hooks = metrics.queue("jobset")
    queue: WorkQueue[str] = WorkQueue(metrics=hooks, clock=lambda: now)
    labels = 'controller="jobset",name="jobset"'
    assert not [s for s in scrape(metrics) if s.startswith("workqueue_depth")]
    hooks.bind(queue)
    for key in ("a", "b", "c"):
        queue.add(key)
    queue.add("a")
    queue.add("old", LOW_PRIORITY)
    queue.add_after("later", 60)
    found = scrape(metrics)
    assert found[f'workqueue_depth{{{labels},priority="0"}}'] == 3
    assert found[f'workqueue_depth{{{labels},priority="-100"}}'] == 1
    assert found[f"workqueue_adds_total{{{labels}}}"] == 5
    assert found[f"workqueue_unfinished_work_seconds{{{labels}}}"] == 0

    now += 2
    first = await queue.get()
    now += 3
    second = await queue.get()
    now += 4
    found = scrape(metrics)
    assert found[f'workqueue_depth{{{labels},priority="0"}}'] == 1
    assert found[f"workqueue_unfinished_work_seconds{{{labels}}}"] == 7 + 4
    assert found[f"workqueue_longest_running_processor_seconds{{{labels}}}"] == 7
    assert found[f"workqueue_queue_duration_seconds_sum{{{labels}}}"] == 2 + 5

    assert first is not None
    assert second is not None
    queue.done(first)
    queue.done(second)
    queue.add_rate_limited(first)
    found = scrape(metrics)
    assert found[f"workqueue_longest_running_processor_seconds{{{labels}}}"] == 0
    assert found[f"workqueue_work_duration_seconds_count{{{labels}}}"] == 2
    assert found[f"workqueue_work_duration_seconds_sum{{{labels}}}"] == 11
    assert found[f"workqueue_retries_total{{{labels}}}"] == 1
    queue.shutdown()
    assert scrape(metrics)[f'workqueue_depth{{{labels},priority="0"}}'] == 0


async def test_a_real_controller_counts_every_outcome() -> None:
    metrics = Metrics()
    hooks = metrics.queue("jobset")
    queue: WorkQueue[Request] = WorkQueue(metrics=hooks)
    hooks.bind(queue)
    outcomes: list[Result | Exception] = [Result(requeue_after=3600), BadRequest(413, Status()), ZeroDivisionError()]
    during: dict[str, float] = {}

    async def reconcile(_: Request) -> Result | None:
        if not outcomes:
            during.update(scrape(metrics))
            queue.shutdown()
            return None
        queue.add(KEY)  # whatever becomes of this one, come back at once
        count_request()
        match outcomes.pop(0):
            case Exception() as error:
                raise error
            case result:
                return result

    queue.add(KEY)
    async with asyncio.timeout(5):
        await Controller("jobset", queue, reconcile, workers=2, metrics=metrics.controller("jobset", 2)).run()
    found = scrape(metrics)
    results = {r: found[f'controller_runtime_reconcile_total{{controller="jobset",result="{r}"}}'] for r in RESULTS}
    assert results == {"success": 1, "error": 2, "requeue": 0, "requeue_after": 1}
    assert found['controller_runtime_reconcile_errors_total{controller="jobset"}'] == 2
    assert found['controller_runtime_terminal_reconcile_errors_total{controller="jobset"}'] == 1
    assert found['controller_runtime_reconcile_panics_total{controller="jobset"}'] == 1
    assert found['controller_runtime_reconcile_time_seconds_count{controller="jobset"}'] == 4
    assert found['jobset_reconcile_api_calls_sum{controller="jobset"}'] == 3
    assert found['jobset_reconcile_api_calls_count{controller="jobset"}'] == 4
    assert during['controller_runtime_active_workers{controller="jobset"}'] == 1
    assert found['controller_runtime_active_workers{controller="jobset"}'] == 0


RESULTS = ("success", "error", "requeue", "requeue_after")


def test_webhooks_requests_leadership_and_certificates() -> None:
    metrics = Metrics()
    metrics.webhooks.on_start("/mutate")
    metrics.webhooks.on_start("/mutate")
    assert scrape(metrics)['controller_runtime_webhook_requests_in_flight{webhook="/mutate"}'] == 2
    metrics.webhooks.on_finish("/mutate", 200, 0.004)
    metrics.webhooks.on_finish("/mutate", 500, 0.3)
    metrics.requests.on_request("200", "GET", "10.0.0.1:443")
    metrics.requests.on_request("<error>", "GET", "10.0.0.1:443")
    metrics.leader("lease", True)
    metrics.certificate("webhook").on_load(1_900_000_000.0)
    metrics.certificate("webhook").on_failure()
    metrics.certificate("webhook").on_authority(2_000_000_000.0)
    metrics.certificate("webhook").on_registration("validating", 0)
    found = scrape(metrics)
    assert found['controller_runtime_webhook_requests_in_flight{webhook="/mutate"}'] == 0
    assert found['controller_runtime_webhook_requests_total{code="200",webhook="/mutate"}'] == 1
    assert found['controller_runtime_webhook_requests_total{code="500",webhook="/mutate"}'] == 1
    assert found['controller_runtime_webhook_latency_seconds_bucket{le="0.005",webhook="/mutate"}'] == 1
    assert found['controller_runtime_webhook_latency_seconds_count{webhook="/mutate"}'] == 2
    assert found['rest_client_requests_total{code="200",host="10.0.0.1:443",method="GET"}'] == 1
    assert found['rest_client_requests_total{code="<error>",host="10.0.0.1:443",method="GET"}'] == 1
    assert found['leader_election_master_status{name="lease"}'] == 1
    metrics.leader("lease", False)
    assert scrape(metrics)['leader_election_master_status{name="lease"}'] == 0
    assert found['jobset_certificate_expiry_seconds{name="webhook"}'] == 1_900_000_000
    assert found['jobset_certificate_expiry_seconds{name="webhook-ca"}'] == 2_000_000_000
    assert found['jobset_webhooks_registered{configuration="validating"}'] == 0
    assert found["certwatcher_read_certificate_total"] == 2
    assert found["certwatcher_read_certificate_errors_total"] == 1


async def test_the_page_describes_every_metric_with_its_type_and_labels_and_no_other() -> None:
    metrics = Metrics()
    queue: WorkQueue[Request] = WorkQueue(metrics=metrics.queue("jobset"))
    metrics.queue("jobset").bind(queue)
    metrics.controller("jobset", 1)
    metrics.requests.on_request("200", "GET", "host")
    metrics.webhooks.on_start("/mutate")
    metrics.webhooks.on_refusal("/mutate", "rule")
    metrics.webhooks.on_finish("/mutate", 200, 0.1)
    metrics.webhooks.count_decision(PolicyId("limits", "1"), "maxJobs", "Deny")
    metrics.webhooks.exception("limits", "Expired")
    metrics.certificate("webhook").on_load(0)
    metrics.certificate("webhook").on_registration("validating", 2)
    metrics.leader("lease", False)
    for state in ("Completed", "Failed"):
        metrics.outcomes.on_end("a", "x", state)
    metrics.outcomes.deadline_exceeded("a", "x")
    metrics.outcomes.start_timed_out("a", "x")
    exposed: dict[str, tuple[str, set[str]]] = {}
    for family in text_string_to_metric_families(metrics.render()[0].decode()):
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert family.samples, f"nothing is known of {name} here: call its hook above"
        exposed[name] = (family.type, labels)
    assert documented() == exposed, f"correct {PAGE.name}"


def test_examples_on_the_page_ask_for_metrics_that_exist() -> None:
    queries = re.findall(r"^```promql\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(queries) >= 5
    series = {name + end for name, kind in TYPES.items() for end in ENDINGS.get(kind, ("",))}
    prefixes = ("jobset_", "workqueue_", "controller_runtime_", "rest_client_", "leader_")
    for query in queries:
        asked = {word for word in re.findall(r"[a-z_]+", query) if word.startswith(prefixes)}
        assert asked, query
        assert asked - LABELS <= series, query


ENDINGS = {"histogram": ("_bucket", "_count", "_sum")}
LABELS = {"jobset_name"}

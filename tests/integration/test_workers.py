"""A manager that serves admission beside the reconcile loop: in the same process, or in several on one port."""

import base64
import contextlib
import os
import signal
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from app.settings import LeaderElectionSettings
from controllers.resources import JOBSETS
from dev import local
from dev.bench import proc
from dev.bench.load_generator import Load, run
from dev.bench.saturation import reviews
from dev.cluster.cluster import Cluster
from dev.cluster.spec import ClusterSpec
from manifests import NAMESPACE
from tests.support.cluster.requests import OwnCluster, apply, listed, new_namespace, request, wait_for
from tests.support.objects.jobsets import jobset, rjob, stored
from tests.support.objects.reviews import encode, review
from webhooks.jobset.handlers import MUTATE_PATH, VALIDATE_PATH


@pytest.fixture(scope="module")
def cluster(own_cluster: OwnCluster) -> Iterator[Cluster]:
    with own_cluster(ClusterSpec(name="workers", profile="api")) as cluster:
        local.install(cluster, webhook_port=None)
        yield cluster


@contextlib.contextmanager
def running_manager(cluster: Cluster, folder: Path, workers: int = 0) -> Iterator[local.Manager]:
    """A manager with so many processes of admission and no other, of which nothing is left after the block.

    The process that makes certificates may outlive readiness: it is waited for.
    """
    sections = {"webhook": {"workers": workers}}
    manager = local.start(cluster, folder, webhook_port=local.free_port(), sections=sections)
    try:
        wait_for(lambda: len(proc.family(manager.process.pid)) == 1 + workers, what="only the processes of admission")
        yield manager
    finally:
        if manager.process.poll() is None:
            local.stop(manager)


@pytest.fixture
def manager(cluster: Cluster, tmp_path: Path) -> Iterator[local.Manager]:
    """With three processes of admission."""
    with running_manager(cluster, tmp_path, workers=3) as manager:
        yield manager


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def authorities(cluster: Cluster, folder: Path) -> Path:
    """The CA bundle that the API server trusts."""
    secret = ("-n", NAMESPACE, "get", "secret", "jobset-webhook-server-cert", "-o", r"jsonpath={.data.ca\.crt}")
    path = folder / "ca.crt"
    path.write_bytes(base64.b64decode(local.kubectl(cluster, *secret).stdout))
    return path


def renewed(cluster: Cluster) -> str:
    """When the lease was last renewed."""
    name = LeaderElectionSettings().resource_name
    status, lease = request(cluster, "GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{name}")
    return str(lease["spec"]["renewTime"]) if status == HTTPStatus.OK else ""


def cpu(pid: int, thread: str = "") -> int:
    """The time of a process, in ticks; of its first thread if `thread` is its folder."""
    return sum(map(int, Path(f"/proc/{pid}/{thread}stat").read_text().rpartition(")")[2].split()[11:13]))


def in_event_loop(pid: int) -> int:
    return cpu(pid, f"task/{pid}/")


def see_it_reconcile(cluster: Cluster) -> None:
    """Wait until a new JobSet has its Jobs and the lease is renewed."""
    before = renewed(cluster)
    namespace = new_namespace(cluster)
    apply(
        cluster,
        f"/apis/{JOBSETS.api_version}/namespaces/{namespace}/jobsets",
        jobset(rjob(replicas=2, pod={"restartPolicy": "Never"}), namespace=namespace),
    )
    wait_for(lambda: len(listed(cluster, f"/apis/batch/v1/namespaces/{namespace}/jobs")) == 2, what="the Jobs")
    wait_for(lambda: renewed(cluster) > before, what="the lease to be renewed")


def ask_until(over: threading.Event, manager: local.Manager, authority: Path, review: tuple[str, bytes]) -> int:
    """Send a review again and again; returns how many were answered."""
    trusted, answers = ssl.create_default_context(cafile=authority), 0
    trusted.check_hostname = False
    path, body = review
    url, headers = f"https://127.0.0.1:{manager.webhook_port}{path}", {"Content-Type": "application/json"}
    while not over.is_set():
        with urlopen(Request(url, body, headers), context=trusted, timeout=60) as answer:
            answers += answer.status == HTTPStatus.OK
    return answers


def test_one_process_reconciles_beside_expensive_reviews(cluster: Cluster, tmp_path: Path):
    """As installed. Each review takes 0.2 s, and 16 are always there: they are judged in threads."""
    names = [f"aaaaaaaaaaaaaaaaaaaa-{i}" for i in range(1500)]
    groups = [rjob(f"aaaaaaaaaaaaaaaaaaaa-b{i}") for i in range(100)]
    body = encode(review(stored(jobset(*groups, successPolicy={"operator": "All", "targetReplicatedJobs": names}))))
    over = threading.Event()
    with running_manager(cluster, tmp_path) as manager, ThreadPoolExecutor(16) as pool:
        trusted = authorities(cluster, tmp_path)
        pid = manager.process.pid
        before = cpu(pid), in_event_loop(pid)
        paths = (MUTATE_PATH, VALIDATE_PATH) * 8
        asked = [pool.submit(ask_until, over, manager, trusted, (path, body)) for path in paths]
        try:
            for _ in range(2):
                see_it_reconcile(cluster)
            spent, in_loop = cpu(pid) - before[0], in_event_loop(pid) - before[1]
        finally:
            over.set()
        assert all(each.result() for each in asked)
    assert in_loop < spent / 2, "ticks of the thread that reconciles and renews the lease"


def test_all_of_them_answer_and_they_stop_together(cluster: Cluster, manager: local.Manager, tmp_path: Path):
    family = proc.family(manager.process.pid)
    before = {pid: cpu(pid) for pid in family}
    bodies = list(reviews(MUTATE_PATH, 1, 0))
    trusted, load = authorities(cluster, tmp_path), Load(connections=32, seconds=2, warm_up=0.2)
    report = run(manager.webhook_port, trusted, bodies, load)
    assert report["requests"] > 100
    assert (report["refused"], report["lost"]) == (0, 0)
    assert all(cpu(pid) > before[pid] for pid in family[1:])
    assert local.stop(manager) == 0
    assert all(gone(pid) for pid in family)
    assert "Traceback" not in manager.log.read_text()


def test_the_lease_and_the_controllers_do_not_wait_for_admission(cluster: Cluster, manager: local.Manager):
    """Nothing is busier than a process that is stopped."""
    _, *workers = proc.family(manager.process.pid)
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    see_it_reconcile(cluster)
    for pid in workers:
        os.kill(pid, signal.SIGCONT)
    assert local.stop(manager) == 0


def test_one_that_dies_takes_the_manager_with_it(manager: local.Manager):
    first, *workers = proc.family(manager.process.pid)
    os.kill(workers[0], signal.SIGKILL)
    assert manager.process.wait(20) == 1
    assert f"admission worker {workers[0]} ended" in manager.tail()
    assert all(gone(pid) for pid in (first, *workers))


def test_they_do_not_outlive_a_manager_that_is_killed(manager: local.Manager):
    family = proc.family(manager.process.pid)
    manager.kill()
    wait_for(lambda: all(gone(pid) for pid in family), what="the workers to end")


@pytest.mark.slow
def test_signals_to_the_whole_group_are_the_managers(manager: local.Manager):
    """Ctrl-C in a terminal reaches every process."""
    family = proc.family(manager.process.pid)
    for pid in reversed(family):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
    assert manager.process.wait(20) == 0
    assert all(gone(pid) for pid in family)

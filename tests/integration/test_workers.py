"""A manager with several processes that serve admission on one port."""

import base64
import contextlib
import os
import signal
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

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
from tests.support.objects.jobsets import jobset, rjob
from webhooks.jobset.handlers import MUTATE_PATH


@pytest.fixture(scope="module")
def cluster(own_cluster: OwnCluster) -> Iterator[Cluster]:
    with own_cluster(ClusterSpec(name="workers", profile="api")) as cluster:
        local.install(cluster, webhook_port=None)
        yield cluster


@pytest.fixture
def manager(cluster: Cluster, tmp_path: Path) -> Iterator[local.Manager]:
    """With three processes of admission; nothing of it is left after the test."""
    manager = local.start(cluster, tmp_path, webhook_port=local.free_port(), sections={"webhook": {"workers": 3}})
    try:
        yield manager
    finally:
        if manager.process.poll() is None:
            local.stop(manager)


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


def cpu(pid: int) -> int:
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


def test_all_of_them_answer(cluster: Cluster, manager: local.Manager, tmp_path: Path):
    family = proc.family(manager.process.pid)
    assert len(family) == 4
    before = {pid: cpu(pid) for pid in family}
    bodies = list(reviews(MUTATE_PATH, 1, 0))
    trusted, load = authorities(cluster, tmp_path), Load(connections=32, seconds=2, warm_up=0.2)
    report = run(manager.webhook_port, trusted, bodies, load)
    assert report["requests"] > 100
    assert (report["refused"], report["lost"]) == (0, 0)
    assert all(cpu(pid) > before[pid] for pid in family[1:])


def test_the_lease_and_the_controllers_do_not_wait_for_admission(cluster: Cluster, manager: local.Manager):
    """Nothing is busier than a process that is stopped."""
    _, *workers = proc.family(manager.process.pid)
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    before = renewed(cluster)
    namespace = new_namespace(cluster)
    apply(
        cluster,
        f"/apis/{JOBSETS.api_version}/namespaces/{namespace}/jobsets",
        jobset(rjob(replicas=2, pod={"restartPolicy": "Never"}), namespace=namespace),
    )
    wait_for(lambda: len(listed(cluster, f"/apis/batch/v1/namespaces/{namespace}/jobs")) == 2, what="the Jobs")
    wait_for(lambda: renewed(cluster) > before, what="the lease to be renewed")
    for pid in workers:
        os.kill(pid, signal.SIGCONT)
    assert local.stop(manager) == 0


def test_they_stop_together(manager: local.Manager):
    family = proc.family(manager.process.pid)
    assert local.stop(manager) == 0
    assert all(gone(pid) for pid in family)
    assert "Traceback" not in manager.log.read_text()


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

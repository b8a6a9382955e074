"""Clusters come up once, side by side, go down in order, leave nothing behind, and say what is wrong."""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dev.bench.proc import cpu_seconds
from dev.cluster import cluster as clusters
from dev.cluster import supervisor
from dev.cluster.assets import Sources
from dev.cluster.cluster import down, get, running, statuses, up
from dev.cluster.components import Component
from dev.cluster.errors import DevclusterError, UsageError
from dev.cluster.spec import ClusterSpec, FakeNodes, Layout
from tests.dev.cluster.fakes import fake_binaries
from tests.support.cluster.requests import kubectl, request, wait_for
from tests.support.commands import run_command

REPOSITORY = Path(__file__).parents[3]
API = ClusterSpec(name="one", profile="api")

OWNER = """
import sys, time
from pathlib import Path
from dev.cluster.assets import Sources
from dev.cluster.cluster import running
from dev.cluster.spec import ClusterSpec
with running(ClusterSpec(name="one"), sources=Sources(assets=Path(sys.argv[1])), state_root=Path(sys.argv[2])):
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def root(tmp_path):
    """A state folder in which every cluster is taken down at the end, whatever the test did."""
    folder = tmp_path / "state"
    yield folder
    for entry in statuses(state_root=folder):
        down(entry["name"], state_root=folder)


def alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        # A killed process whose parent does not collect it is dead all the same.
        state = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607
        return not state.stdout.strip().startswith("Z") and state.stdout.strip() != ""
    return False


def processes(root: Path, name: str = "one") -> list[int]:
    entry = next(entry for entry in statuses(state_root=root) if entry["name"] == name)
    return [entry["supervisor"], *entry["components"].values()]


def run_as_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `jobset cluster` in a process that ends before its cluster."""
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "cli", "cluster", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        timeout=60,
    )


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command("cluster", *arguments)


@pytest.mark.integration
@pytest.mark.slow
def test_up_twice_is_harmless_and_clusters_live_side_by_side(root, binaries):
    first = up(API, sources=Sources(assets=binaries), state_root=root)
    with running(dataclasses.replace(API, name="two"), sources=Sources(assets=binaries), state_root=root) as second:
        again = up(API, state_root=root)
        assert (first.existed, again.existed) == (False, True)
        assert (again.server, again.kubeconfig) == (first.server, first.kubeconfig)
        assert request(first, "GET", "/api/v1/namespaces/default")[0] == 200
        assert not set(first.plan.ports.values()) & set(second.plan.ports.values())
        found = statuses(state_root=root)
        assert [(entry["name"], entry["phase"]) for entry in found] == [("one", "ready"), ("two", "ready")]
        with pytest.raises(DevclusterError, match="'default' is not up: up are one, two: use --name one, or start it"):
            get("default", state_root=root)
    assert [entry["name"] for entry in statuses(state_root=root)] == ["one"]
    assert kubectl(first, "get", "namespaces", "--output", "name").startswith("namespace/default")
    pids = processes(root)
    assert down("one", state_root=root) is True
    assert not [pid for pid in pids if alive(pid)]
    assert down("one", state_root=root) is False
    assert list(root.iterdir()) == []


@pytest.mark.e2e
def test_parent_killed_with_9_leaves_nothing(root, binaries):
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", OWNER, binaries, root], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        pids = processes(root)
        assert len(pids) == 6
        assert all(alive(pid) for pid in pids)
        owner.kill()
        wait_for(lambda: not any(alive(pid) for pid in pids), timeout=20, what="all processes are gone")
    wait_for(lambda: not (root / "one").exists(), what="the state folder is gone")


@pytest.mark.integration
def test_a_cluster_outlives_its_command_and_ends_with_its_supervisor_or_component(root, binaries):
    where = ("--state-dir", str(root), "--name", "one")
    answer = run_as_process("up", *where, "--profile", "api", "--assets", str(binaries))
    assert answer.returncode == 0, answer.stderr
    assert f"export KUBECONFIG={root}/one/kubeconfig" in answer.stdout
    assert "was already up" in cli("up", *where).stdout
    assert cli("kubeconfig", *where).stdout == f"{root}/one/kubeconfig\n"
    (entry,) = json.loads(cli("status", "--state-dir", str(root), "-o", "json").stdout)
    assert (entry["phase"], entry["profile"], set(entry["components"])) == ("ready", "api", {"etcd", "kube-apiserver"})
    assert request(get("one", state_root=root), "GET", "/version")[1]["gitVersion"] == "v1.37.1"

    os.kill(entry["supervisor"], signal.SIGKILL)
    wait_for(lambda: not any(alive(pid) for pid in entry["components"].values()), what="components are gone")
    assert "gone" in cli("status", "--state-dir", str(root)).stdout
    assert cli("kubeconfig", *where).returncode == 1
    # The stale folder is not an obstacle.
    answer = run_as_process("up", *where, "--profile", "api", "--assets", str(binaries))
    assert answer.stdout.startswith("Cluster one had ended. It starts without the objects and logs that it had.\n")
    assert "is up at" in answer.stdout, answer.stderr

    # A component that dies ends the cluster, too, and its last log lines are shown.
    (entry,) = statuses(state_root=root)
    os.kill(entry["components"]["etcd"], signal.SIGKILL)

    def phase() -> str:
        (entry,) = statuses(state_root=root)
        return entry["message"] if entry["phase"] == "failed" else ""

    message = wait_for(phase)
    assert message.startswith("etcd was killed by signal 9.\nLast lines of ")
    # A slow machine adds warnings, so which lines are the last ones is known from the log alone.
    last_line = Layout(root / "one").log("etcd").read_text().splitlines()[-1]
    assert f"  {last_line[:1500]}\n" in message
    assert "`jobset cluster down --name one` removes what is left; then start it as before" in message.splitlines()[-1]
    assert not alive(entry["components"]["kube-apiserver"])
    assert message.splitlines()[0] in cli("status", "--state-dir", str(root)).stdout
    assert cli("logs", *where, "etcd").stdout.splitlines()[-1] == last_line
    assert cli("down", *where).stdout == "Cluster one is down, its state is removed.\n"


@pytest.mark.parametrize(
    ("last_words", "cause"),
    [
        ("listen tcp 127.0.0.1:1: bind: address already in use", "a port was taken"),
        ("wal: write: no space left on device", "the disk is full"),
        ("something nobody foresaw", None),
    ],
)
def test_component_that_does_not_start_is_explained(root, tmp_path, last_words, cause):
    broken = fake_binaries(tmp_path / "broken", kube_apiserver=f"echo first; echo '{last_words}'; exit 3")
    with pytest.raises(DevclusterError) as error:
        up(API, sources=Sources(assets=broken), state_root=root)
    text = str(error.value)
    assert "cluster 'one' did not come up: kube-apiserver ended with code 3." in text
    assert f"  first\n  {last_words}" in text
    assert (f"Likely cause: {cause}" in text) if cause else ("Likely" not in text)
    assert not [pid for pid in processes(root) if alive(pid)]
    assert last_words in cli("logs", "--state-dir", str(root), "--name", "one", "kube-apiserver").stdout


def test_binary_that_cannot_be_run_is_explained(root, tmp_path):
    broken = fake_binaries(tmp_path / "broken")
    (broken / "kube-apiserver").write_bytes(b"\x7fELF not really")
    with pytest.raises(DevclusterError, match=r"kube-apiserver cannot be started: .*Exec format"):
        up(API, sources=Sources(assets=broken), state_root=root)


def test_interrupted_up_stops_what_it_started(root, tmp_path, monkeypatch):
    def interrupt(_layout: Layout) -> None:
        wait_for(lambda: len(clusters._read_status(Layout(root / "one")).get("components", {})) == 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(clusters, "_wait_until_ready", interrupt)
    with pytest.raises(KeyboardInterrupt):
        up(API, sources=Sources(assets=fake_binaries(tmp_path / "asleep")), state_root=root)
    assert not [pid for pid in processes(root) if alive(pid)]


def test_taken_port_is_reported_before_anything_starts(root, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DevclusterError, match=f"port {port} on 127.0.0.1 is taken"):
            up(
                dataclasses.replace(API, port=port),
                sources=Sources(assets=fake_binaries(tmp_path / "b")),
                state_root=root,
            )
    assert statuses(state_root=root) == []


def test_folder_of_somebody_else_is_left_alone(root, tmp_path):
    (root / "one").mkdir(parents=True)
    (root / "one" / "thesis.tex").write_text("draft")
    with pytest.raises(DevclusterError, match="is not empty and was not made by this tool"):
        up(API, sources=Sources(assets=fake_binaries(tmp_path / "b")), state_root=root)
    with pytest.raises(DevclusterError, match="is not empty and was not made by this tool"):
        down("one", state_root=root)
    assert (root / "one" / "thesis.tex").read_text() == "draft"


def test_folder_of_another_version_is_reported_and_can_be_taken_down(root):
    (root / "one").mkdir(parents=True)
    (root / "one" / "cluster.json").write_text('{"spec": {"name": "one", "nodes": {}, "colour": "red"}}')
    (entry,) = statuses(state_root=root)
    assert (entry["phase"], entry["name"]) == ("stale", "one")
    assert "stale state folder" in entry["message"]
    assert "jobset cluster down --name one" in cli("status", "--state-dir", str(root)).stdout
    assert down("one", state_root=root)
    assert list(root.iterdir()) == []


def test_leftover_processes_are_ended_and_strangers_with_their_ids_are_not(root):
    """Where the system does not end the components with a killed supervisor, the next command does."""
    folder = root / "one"
    folder.mkdir(parents=True)
    (folder / "cluster.json").write_text("{}")
    # The command line of a real component names the state folder; `sh` shows it as $0.
    commands = (["/bin/sh", "-c", "sleep 600; true", str(folder / "etcd")], ["/bin/sleep", "600"])
    leftover, stranger = (subprocess.Popen(command, start_new_session=True) for command in commands)  # noqa: S603
    try:
        (folder / "status.json").write_text(json.dumps({"components": {"etcd": leftover.pid, "kwok": stranger.pid}}))
        assert down("one", state_root=root)
        assert leftover.wait(5) == -signal.SIGKILL
        assert stranger.poll() is None
    finally:
        for process in (leftover, stranger):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_full_disk_is_reported_before_anything_starts(root, tmp_path, monkeypatch):
    class Usage:
        free = 1024 * 1024

    monkeypatch.setattr("shutil.disk_usage", lambda _path: Usage)
    with pytest.raises(DevclusterError, match=r"disk full: .* needs 500 MiB, its file system has 1 MiB free"):
        up(API, sources=Sources(assets=fake_binaries(tmp_path / "b")), state_root=root)


def test_stop_goes_from_the_clients_to_etcd_and_waits_for_each_rank(tmp_path):
    layout = Layout(tmp_path)
    layout.logs.mkdir()
    order = tmp_path / "order"

    def component(name: str, rank: int, linger: float) -> tuple[Component, subprocess.Popen[bytes]]:
        script = (
            f"trap 'sleep {linger}; echo {name} >> {order}; exit 0' TERM; "
            f"touch {tmp_path}/{name}.up; while :; do sleep 0.02; done"
        )
        found = Component(name, ("/bin/sh", "-c", script), rank, lambda: True)
        return found, supervisor.spawn(found, layout)

    pairs = [component("etcd", 0, 0), component("apiserver", 1, 0.3), component("kwok", 2, 0.2)]
    wait_for(lambda: len(list(tmp_path.glob("*.up"))) == 3)
    supervisor.stop_in_order(pairs)
    assert order.read_text().split() == ["kwok", "apiserver", "etcd"]


def test_component_that_ignores_the_request_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "STOP_SECONDS", 0.2)
    layout = Layout(tmp_path)
    layout.logs.mkdir()
    script = f"trap '' TERM; touch {tmp_path}/up; while :; do sleep 0.02; done"
    deaf = Component("deaf", ("/bin/sh", "-c", script), 0, lambda: True)
    process = supervisor.spawn(deaf, layout)
    wait_for((tmp_path / "up").exists)
    supervisor.stop_in_order([(deaf, process)])
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", ["", "..", "Upper", "a/b", "-a", "x" * 41])
def test_names_that_could_be_paths_are_refused(name, tmp_path):
    for act in (down, get):
        with pytest.raises(UsageError, match="is not usable"):
            act(name, state_root=tmp_path)


def test_nodes_and_volumes_need_kwok():
    with pytest.raises(UsageError, match="fake nodes need the full profile"):
        ClusterSpec(profile="api", nodes=FakeNodes(count=1))
    with pytest.raises(UsageError, match="fake volumes need the full profile"):
        ClusterSpec(profile="api", volumes=1)


@pytest.mark.integration
def test_minted_user_has_the_rights_of_its_role_and_no_others(jobset_server, namespace):
    user = "system:serviceaccount:jobset-system:jobset-controller-manager"
    groups = ["system:serviceaccounts", "system:serviceaccounts:jobset-system"]
    kubectl(jobset_server, "create", "role", "reader", "--verb=get,list", "--resource=pods", namespace=namespace)
    binding = ("create", "rolebinding", "reader", "--role=reader")
    kubectl(jobset_server, *binding, "--group=system:serviceaccounts:jobset-system", namespace=namespace)
    as_user = ("--kubeconfig", str(jobset_server.kubeconfig_for(user, groups)))

    who = json.loads(kubectl(jobset_server, *as_user, "auth", "whoami", "--output", "json"))["status"]["userInfo"]
    assert who["username"] == user
    assert set(groups) < set(who["groups"])
    # The binding reaches the authorizer by a watch.
    allowed = ("auth", "can-i", "list", "pods")
    wait_for(lambda: kubectl(jobset_server, *as_user, *allowed, namespace=namespace, check=False) == "yes\n")
    assert "forbidden" in kubectl(jobset_server, *as_user, "get", "secrets", namespace=namespace, check=False)


@pytest.mark.integration
def test_user_name_too_long_for_a_certificate_is_reported(jobset_server):
    with pytest.raises(DevclusterError, match="has 65 characters"):
        jobset_server.kubeconfig_for("u" * 65)


@pytest.mark.integration
def test_gang_scheduling_apis_are_served(jobset_server):
    names = kubectl(jobset_server, "api-resources", "--api-group=scheduling.k8s.io", "--output=name").split()
    assert {
        "workloads.scheduling.k8s.io",
        "podgroups.scheduling.k8s.io",
        "compositepodgroups.scheduling.k8s.io",
    } <= set(names)


@pytest.mark.parametrize(
    "arguments",
    [
        ("up", "--label-every", "rack"),
        ("up", "--label-every", "rack=0"),
        ("up", "--capacity", "cpu="),
        ("up", "--feature-gate", "A=maybe"),
        ("up", "--nodes", "-1"),
        ("up", "--name", "No/Good"),
        ("up", "--profile", "api", "--nodes", "3"),
        ("restart",),
        (),
    ],
)
def test_wrong_usage_ends_with_2(arguments):
    answer = cli(*arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith(("jobset cluster", "error: "))


def test_failure_ends_with_1_and_one_clear_message(tmp_path):
    answer = cli("up", "--state-dir", str(tmp_path / "s"), "--assets", str(tmp_path))
    assert answer.returncode == 1
    assert answer.stderr.startswith(
        f"error: {tmp_path} (from --assets or KUBEBUILDER_ASSETS) lacks etcd, kube-apiserver"
    )
    assert "Traceback" not in answer.stderr


def test_nothing_there_is_not_a_failure(tmp_path):
    where = ("--state-dir", str(tmp_path))
    assert cli("down", *where).stdout == "Cluster default was not up.\n"
    assert cli("status", *where).stdout == "No clusters.\n"
    assert json.loads(cli("status", *where, "-o", "json").stdout) == []


def test_every_command_about_one_cluster_takes_its_name():
    for verb in ("up", "down", "status", "kubeconfig", "logs", "node"):
        assert "--name NAME" in cli(verb, "--help").stdout, verb


def test_status_of_one_cluster(root):
    for name in ("one", "two"):
        (root / name).mkdir(parents=True)
        (root / name / "cluster.json").write_text("{}")
    where = ("--state-dir", str(root))
    assert len(json.loads(cli("status", *where, "-o", "json").stdout)) == 2
    (entry,) = json.loads(cli("status", *where, "--name", "two", "-o", "json").stdout)
    assert entry["name"] == "two"
    answer = cli("status", *where, "--name", "three")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == "error: there is no cluster 'three'; known are: one, two.\n"


@pytest.mark.slow
def test_a_full_cluster_takes_less_than_ten_seconds_of_processor_time_to_start(tmp_path, binaries):
    """It is ready within ten seconds on a machine that does nothing else (measured: 4 s, 3 of the processor)."""
    spec = ClusterSpec(name="timed", nodes=FakeNodes(count=20))
    with running(spec, sources=Sources(assets=binaries), state_root=tmp_path):
        supervisor, *_ = processes(tmp_path, "timed")
        assert cpu_seconds(supervisor) < 10

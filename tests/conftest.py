"""Real clusters for tests: one of each kind (per worker under pytest-xdist), one namespace per test.

Clusters die with the pytest process, kill -9 included. Binaries are fetched or built before the first test starts, so
that no test's timeout pays for that. The fixtures hold nothing that belongs to an event loop.
"""

import asyncio
import contextlib
import gc
import os
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from dev import local
from dev.cluster import cluster as clusters
from dev.cluster.assets import Sources, locate
from dev.cluster.cluster import Cluster, running
from dev.cluster.errors import DevclusterError
from dev.cluster.real.assets import locate_node_assets
from dev.cluster.real.preflight import real_nodes_missing
from dev.cluster.spec import ClusterSpec, FakeNodes, Layout
from dev.hack.node_images import locate_images
from tests.support import distribution
from tests.support.cluster import rights
from tests.support.cluster.helm import Helm
from tests.support.cluster.requests import OwnCluster, drop_namespace, lent, new_namespace
from tests.support.cluster.shared import Shared
from tests.support.processor_time import ProcessorTime
from tests.support.programs import locate_program
from tests.support.programs.certmanager import CERT_MANAGER
from tests.support.programs.crdvalidator import OLDEST, VALIDATORS
from tests.support.programs.helm import HELM, VERSIONS
from tests.support.programs.kubeconform import KUBECONFORM

# looptime's plugin asks the policy for a loop even around a synchronous test; if none was ever set, the policy makes one
# that is never closed, and some later test fails with a ResourceWarning.
asyncio.set_event_loop(None)

# A busy machine is not a failure: pytest-timeout ends what hangs. Continuous integration always tries the same examples, so
# that it judges the change and not the day's luck; everywhere else the search goes on.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")

# Go programs, control planes above all, take a sixth less processor time for a half more memory.
os.environ.setdefault("GOGC", "400")

TESTS = Path(__file__).parent
KINDS = {"integration": "integration", "e2e": "e2e", "e2e/real": "real_node"}
"""The markers of folders, which the tests below them get, too."""
PROGRAMS = {
    "helm": tuple(HELM.values()),
    "cert_manager": (CERT_MANAGER,),
    "kubeconform": (KUBECONFORM,),
    "oldest_crd_validator": (VALIDATORS[OLDEST],),
    "crd_validators": tuple(VALIDATORS.values()),
}
"""What the fixtures of these names need beside the control plane."""
CLUSTERS = {"jobset_server", "full_cluster", "real_cluster", "binaries", *PROGRAMS}
SHARED = pytest.StashKey[Shared]()
ASKED: set[rights.Right] = set()
"""What the manager asked of the clusters that this process has stopped, or any of its workers."""


def pytest_configure(config: pytest.Config) -> None:
    """Note the processor time of each test."""
    config.pluginmanager.register(ProcessorTime())
    config.stash[SHARED] = Shared()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Stop what was shared before tests that need no cluster: an idle one takes 3 to 5 % of a processor."""
    yield
    if nextitem is not None and not distribution.is_on_clusters(nextitem.nodeid):
        item.config.stash[SHARED].close()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collection, and leave what that makes out of it from then on: it lives until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test the markers of its folder, and bring all into their order."""
    kinds = {
        path: [KINDS[folder] for parent in path.relative_to(TESTS).parents if (folder := parent.as_posix()) in KINDS]
        for path in {item.path for item in items}
    }
    for item in items:
        for kind in kinds[item.path]:
            item.add_marker(kind)
    items.sort(key=lambda item: distribution.rank(item.nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """How tests are given to processes, where there are several."""
    config.option.loadscopereorder = False  # the order is ours, not by the number of tests
    return distribution.Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Make sure of the binaries while nothing is timed, and show the progress of it."""
    asked = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if CLUSTERS & asked and not session.config.option.collectonly:
        capture = session.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            try:
                locate(Sources())
                if "real_cluster" in asked and not real_nodes_missing():
                    locate_node_assets(Sources())
                    if "installed_in_pods" in asked:
                        locate_images()
                for name in sorted(PROGRAMS.keys() & asked):
                    for program in PROGRAMS[name]:
                        locate_program(program)
            except DevclusterError as error:
                pytest.exit(f"no binaries for the tests' clusters: {error}", returncode=1)
    # Tests meet no server with a certificate of a public authority, and to read all of these takes 50 ms of a processor
    # of each process that a test starts. Only programs of frameworks are installed from where they are published.
    if "FRAMEWORKS" not in os.environ:
        os.environ["SSL_CERT_FILE"] = os.devnull


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say whether real nodes ran, and add up the figures that tests have recorded as properties."""
    if line := real_node_line(terminalreporter):
        terminalreporter.write_line(line)
    figures: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        if report.when == "call":
            figures.update({name: figure for name, figure in report.user_properties if isinstance(figure, int)})
    for name, total in sorted(figures.items()):
        terminalreporter.write_line(f"{name}: {total}")


def real_node_line(terminalreporter: pytest.TerminalReporter) -> str:
    """How many tests on real nodes passed, failed and were skipped, and why; empty if there were none."""
    counts: Counter[str] = Counter()
    reasons = set()
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, ()):
            if "real_node" in getattr(report, "keywords", ()):  # a file that cannot be imported has none
                counts[outcome] += 1
                if outcome == "skipped":
                    reasons.add(report.longrepr[2].removeprefix("Skipped: "))
    if not counts:
        return ""
    parts = [f"{number} {outcome}" for outcome, number in counts.items()]
    return f"tests on real nodes: {', '.join(parts)}{''.join(f': {reason}' for reason in sorted(reasons))}"


@pytest.fixture(scope="session", autouse=True)
def _rights_are_recorded() -> Iterator[None]:
    """Read the audit log of every cluster before it is stopped, which removes the log."""
    stop = clusters.down

    def down(name: str, *, state_root: Path | None = None) -> bool:
        log = Layout.for_name(name, state_root).audit_log
        if log.exists():
            ASKED.update(rights.read(log))
        return stop(name, state_root=state_root)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "down", down)
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker has recorded; one that crashed says nothing."""
    ASKED.update(rights.Right(*row) for row in getattr(node, "workeroutput", {}).get("asked", ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what was recorded to the process that gave us the tests, or, in that one, write it down."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["asked"] = [list(right) for right in ASKED]
    elif ASKED:
        rights.write(ASKED)


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The folder with the control plane's binaries."""
    return locate(Sources())


@pytest.fixture(scope="session", params=VERSIONS, ids=lambda version: f"helm{version}")
def helm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm 3, and Helm 4, which applies on the server's side."""
    return Helm(request.param, locate_program(HELM[request.param]), tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def cert_manager() -> Path:
    """The executable of cert-manager's controllers, with its CRDs beside it."""
    return locate_program(CERT_MANAGER)


@pytest.fixture(scope="session")
def kubeconform() -> Path:
    """The executable of kubeconform."""
    return locate_program(KUBECONFORM)


@pytest.fixture(scope="session")
def oldest_crd_validator() -> Path:
    """The executable that validates CRDs as the oldest API server does that takes ours."""
    return locate_program(VALIDATORS[OLDEST])


@pytest.fixture(scope="session")
def crd_validators() -> dict[str, Path]:
    """The same of each version by its name."""
    return {version: locate_program(program) for version, program in VALIDATORS.items()}


@pytest.fixture(scope="session")
def own_cluster(tmp_path_factory: pytest.TempPathFactory, binaries: Path) -> OwnCluster:
    return lambda spec: running(spec, sources=Sources(assets=binaries), state_root=tmp_path_factory.mktemp(spec.name))


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest, own_cluster: OwnCluster) -> Iterator[Shared]:
    """The clusters that files share. They end before the first test of this process that needs no cluster."""
    with request.config.stash[SHARED] as kept:
        yield kept


@pytest.fixture(scope="module")
def jobset_server(shared: Shared, own_cluster: OwnCluster) -> Iterator[Cluster]:
    """An API server that serves JobSets, with the rights of the manager, lent to the tests of one file.

    No webhook is asked. There are no controllers: Jobs make no pods, namespaces do not empty.
    """

    @contextlib.contextmanager
    def start() -> Iterator[Cluster]:
        with own_cluster(ClusterSpec(name="jobsets", profile="api")) as cluster:
            local.install(cluster, webhook_port=None)
            yield cluster

    with lent(shared.get("jobset_server", start)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shared_cluster(shared: Shared, own_cluster: OwnCluster) -> Cluster:
    """Everything, with 20 fake nodes in two racks (label `rack`: rack-0, rack-1): up in about 6 s."""
    spec = ClusterSpec(name="full", nodes=FakeNodes(count=20, label_every={"rack": 10}))
    return shared.get("shared_cluster", lambda: own_cluster(spec))


@pytest.fixture(scope="module")
def full_cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """The same, lent to the tests of one file."""
    with lent(shared_cluster) as cluster:
        yield cluster


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of its own, in the cluster that the test asks for, else on the API server that serves JobSets."""
    kinds = ("real_cluster", "full_cluster", "jobset_server")
    cluster: Cluster = request.getfixturevalue(
        next((kind for kind in kinds if kind in request.fixturenames), kinds[-1])
    )
    name = new_namespace(cluster)
    yield name
    drop_namespace(cluster, name)

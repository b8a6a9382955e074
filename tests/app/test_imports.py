"""What processes hold: libraries that they have no use for cost memory and time, on every replica and at every call."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages.files import ROOT

WITHOUT_FLAGS = {
    "cli",
    "cli.main",
    "cli.commands",
    "cli.table",
    "cli.terminal",
    "app",
    "app.control_characters",
    "jobset_controller",
}
"""All that there is of ours before a command is called."""
VERSION, COMPLETION, CHECK, EXPLAIN = (
    {"app.version"},
    {"cli.completion"},
    {"cli.check", "cli.check.cli"},
    {"cli.explain", "cli.explain.cli"},
)
SHOW = "import sys; sys.argv = ['jobset', 'manager', '--config=/nowhere']; from cli.main import main; main()\n"


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """Modules that are there when `jobset manager` has read its flags."""
    done = subprocess.run(  # noqa: S603 (ourselves)
        [sys.executable, "-c", f"{SHOW}print(*sys.modules)"], check=True, capture_output=True, text=True, timeout=60
    )
    assert "/nowhere" in done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "dev.demo.demo",
        "cryptography",
        "dev.cluster",
        "kubernetes_asyncio",
        "rich",
        "structlog",
    ],
)
def test_the_manager_does_without(imported: set[str], module: str) -> None:
    assert "app.manager" in imported
    assert module not in imported


TO_RECONCILE = {
    *("api", "app", "certs", "cli", "controllers", "httpserver", "kube", "manifests", "policy", "webhooks"),
    *("aiohappyeyeballs", "aiohttp", "aiosignal", "attr", "frozenlist", "idna", "multidict", "propcache", "yarl"),
    *("annotated_types", "pydantic", "pydantic_core", "typing_extensions", "typing_inspection"),
    *("click", "httptools", "uvicorn", "uvloop"),
    *("msgspec", "prometheus_client", "re2", "yaml"),
}
"""All packages of a manager that only reconciles, but for those of Python itself."""

TO_SERVE = {"annotated_doc", "anyio", "fastapi", "jsonschema_rs", "opentelemetry", "starlette"}
"""Those that admission needs as well, with certificates of its own."""

PREPARE = """\
from api.features import FeatureGates
from app.manager.options import Options
from app.manager.process import prepare
from app.settings import Settings
prepare(Options(Settings(), FeatureGates({{}}), controllers={controllers}, webhooks={webhooks}))
"""


@pytest.mark.parametrize(
    ("controllers", "webhooks", "packages"),
    [(True, False, TO_RECONCILE), (True, True, TO_RECONCILE | TO_SERVE)],
)
def test_a_manager_imports_no_package_that_it_has_no_use_for(
    controllers: bool, webhooks: bool, packages: set[str]
) -> None:
    code = f"import cli.manager_command\n{PREPARE.format(controllers=controllers, webhooks=webhooks)}"
    modules = imported_by(code) - imported_by("")
    there = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names
    assert {name for name in there if not name.startswith(("_", "cython_"))} == packages
    assert "policy.kinds" in modules
    unused = {"cli.config_check", "policy.registry", "webhooks.jobset.policies", "webhooks.policy"}
    assert modules & unused == set()


def test_certificates_are_made_by_a_process_that_has_its_library_to_itself() -> None:
    code = (
        "import app.metrics_server, certs.manager; from certs.child_process import call_in_process\n"
        "assert b'PRIVATE' in call_in_process('certs.renewal', 'self_signed')[1]"
    )
    assert {name for name in imported_by(code) if name.startswith("cryptography")} == set()


def test_no_validators_are_made_that_no_process_uses() -> None:
    code = (
        f"{PREPARE.format(controllers=True, webhooks=True)}from fastapi.openapi.models import OpenAPI\n"
        "assert not OpenAPI.__pydantic_complete__"
    )
    imported_by(code)


AT_THE_END = """\
import atexit, os, sys
end = os._exit
def show(*code):
    print(*sys.modules, file=sys.stderr, flush=True)
    if code:
        end(*code)
atexit.register(show)
os._exit = show  # argcomplete ends so
"""


def imported_by(code: str, **environment: str) -> set[str]:
    """Modules that are there when a program has ended."""
    done = subprocess.run(  # noqa: S603 (our own Python)
        [sys.executable, "-c", AT_THE_END + code],
        env=os.environ | environment, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT,
    )  # fmt: skip
    return {*done.stderr.splitlines()[-1].split()}


def called(*words: str, **environment: str) -> set[str]:
    """Those that `jobset` imports for a command line, but for those of Python itself."""
    code = f"sys.argv = ['jobset', *{words!r}]; from jobset_controller import main; sys.exit(main())"
    found = imported_by(code, **environment) - imported_by("")
    return {name for name in found if name.partition(".")[0] not in sys.stdlib_module_names}


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["--version"], VERSION),
        (["version"], VERSION),
        (["--help"], set()),
        (["validate", "--help"], CHECK),
        (["explain", "--help"], EXPLAIN | COMPLETION),
    ],
)
def test_what_says_how_to_call_it_imports_nothing_else(words: list[str], more: set[str]) -> None:
    assert called(*words) == WITHOUT_FLAGS | more


@pytest.mark.parametrize(("line", "more"), [("jobset expl", set()), ("jobset explain --all", EXPLAIN | COMPLETION)])
def test_a_shell_is_answered_with_argcomplete_alone(tmp_path: Path, line: str, more: set[str]) -> None:
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "answer")}
    modules = called(COMP_LINE=line, COMP_POINT=str(len(line)), **asked)
    assert {name for name in modules if not name.startswith("argcomplete")} == WITHOUT_FLAGS | more
    assert (tmp_path / "answer").read_text(encoding="utf-8").strip() in {"explain", "--all-namespaces"}


def test_a_check_of_a_file_imports_neither_policies_nor_what_asks_a_server() -> None:
    code = "sys.argv = ['jobset', 'validate', 'examples/training.yaml']; from jobset_controller import main; sys.exit(main())"
    there = imported_by(code)
    assert "webhooks.jobset.engine" in there
    unnecessary = {"aiohttp", "asyncio", "cryptography", "dev", "pydantic", "rich", "ssl"}
    assert {name for name in there if name.partition(".")[0] in unnecessary} == set()
    assert {name for name in there if name.startswith(("policy.r", "webhooks.policy", "authoring.policies"))} == set()

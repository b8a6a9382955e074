"""What the manager's process holds: libraries that it has no use for cost memory and time on every replica."""

import subprocess
import sys

import pytest

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
        "cli.demo",
        "cryptography",
        "dev.cluster",
        "kubernetes_asyncio.client.models",
        "kubernetes_asyncio.client.api_client",
        "rich",
        "structlog",
    ],
)
def test_the_manager_does_without(imported: set[str], module: str) -> None:
    assert "app.manager" in imported
    assert module not in imported

"""The commands that the wheel installs, in the one package with a unique name.

The other packages are installed under their names in the repository, which are common words. So a command first checks
that imports find our packages; docs/cli.md#install has the reason and the fix.
"""

import base64
import hashlib
import sys
from importlib.util import find_spec
from pathlib import Path

DISTRIBUTION = "jobset-controller"
PACKAGES = (
    *("api", "app", "authoring", "certs", "cli", "controllers", "dev"),
    *("diagnose", "httpserver", "kube", "manifests", "policy", "ui", "webhooks"),
)
"""The packages that are installed beside this one."""


def main() -> int:
    """Run `jobset`. Returns the exit code."""
    if not _check_packages():
        return 1
    try:
        from cli.main import main as command  # noqa: PLC0415 (after the check)

        return command()
    except ModuleNotFoundError as error:
        from cli.extras import EXTRA, SERVER_MODULES  # noqa: PLC0415 (the same)

        if error.name not in SERVER_MODULES:
            raise
        sys.stderr.write(
            f"jobset: {error.name} is not installed, which only the manager, the demo and the page in the browser need:"
            f" install {EXTRA}\n"
        )
        return 1


def complete() -> int:
    """Print completions for kubectl, which runs this for `kubectl jobset`. Returns the exit code."""
    if not _check_packages():
        return 1
    from cli.main import complete_for_kubectl  # noqa: PLC0415 (as above)

    return complete_for_kubectl()


def _check_packages() -> bool:
    """Report a package of another distribution that would be imported instead of one of ours."""
    hashes = _recorded_hashes()
    for name in PACKAGES:
        expected = Path(__file__).parents[1] / name / "__init__.py"
        spec = find_spec(name)
        path = Path(spec.origin if spec and spec.origin else "(nothing)")
        if path != expected:
            problem = f"{path} stands before {expected}"
        elif hashes.get(f"{name}/__init__.py", digest := _sha256(path)) != digest:
            problem = f"another distribution has overwritten {path}"
        else:
            continue
        sys.stderr.write(
            f"jobset: the package {name} is not that of {DISTRIBUTION}: {problem};"
            " install it into an environment of its own (uv tool install, pipx install), and unset PYTHONPATH\n"
        )
        return False
    return True


def _recorded_hashes() -> dict[str, str]:
    """Path and SHA-256 of each installed file. Empty for an unpacked or editable tree.

    RECORD is read here, because importlib.metadata takes as long to import as most commands take.
    """
    records = Path(__file__).parents[1].glob(f"{DISTRIBUTION.replace('-', '_')}-*.dist-info/RECORD")
    rows = (line.rsplit(",", 2) for record in records for line in record.read_text(encoding="utf-8").splitlines())
    return {path: found.partition("=")[2] for path, found, _ in rows if found}


def _sha256(path: Path) -> str:
    """The hash in the form of RECORD."""
    return base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()

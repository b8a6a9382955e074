"""`python -m manifests` writes or checks the generated files. Both need no cluster.

`--refresh-openapi` reads the Kubernetes types that a JobSet embeds from an API server, by kubectl.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from manifests.embedded import DEFINITIONS_FILE, trim
from manifests.files import differences, write_files
from manifests.objects import ROOT

_TIMEOUT = 60
"""Seconds that one request to the API server may take."""


def _get_from_server(kubectl: list[str], path: str) -> Any:
    command = [*kubectl, "get", "--raw", path]
    result = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)  # noqa: S603 - the user's kubectl
    if result.returncode:
        raise SystemExit(f"cannot read {path} with `{' '.join(command)}`: {result.stderr.strip()}")
    return json.loads(result.stdout)


def _refresh_openapi(kubectl: list[str]) -> None:
    """Write openapi/kubernetes.json, with the server's version and one definition a line."""
    version = _get_from_server(kubectl, "/version")["gitVersion"]
    definitions: dict[str, Any] = {}
    for path in ("/openapi/v3/api/v1", "/openapi/v3/apis/batch/v1"):
        definitions |= _get_from_server(kubectl, path)["components"]["schemas"]
    rows = (f'"{k}": {json.dumps(v, sort_keys=True, separators=(",", ":"))}' for k, v in trim(definitions).items())
    DEFINITIONS_FILE.parent.mkdir(exist_ok=True)
    DEFINITIONS_FILE.write_text(f'{{"kubernetes": "{version}", "definitions": {{\n' + ",\n".join(rows) + "\n}}\n")
    sys.stdout.write(f"{DEFINITIONS_FILE.name}: types of Kubernetes {version}\n")


def _check_files(root: Path) -> int:
    stale = differences(root)
    for path, diff in stale.items():
        sys.stdout.write(f"{path} differs from what is generated:\n{diff}\n")
    if stale:
        sys.stdout.write(f"{len(stale)} file(s) out of date; run `make generate` and commit the result.\n")
    return 1 if stale else 0


def main(argv: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the command on the files below `root`. Returns the exit status: 1 if `--check` finds a difference."""
    parser = argparse.ArgumentParser(
        prog="python -m manifests", description="Generate the files in manifests/ and charts/."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a committed file is not current")
    parser.add_argument("--refresh-openapi", action="store_true", help="first take the Kubernetes types from a server")
    parser.add_argument("--kubeconfig", help="kubeconfig for --refresh-openapi; default: kubectl's own")
    parser.add_argument("--kubectl", default="kubectl", help="kubectl to use for --refresh-openapi")
    options = parser.parse_args(argv)
    if options.refresh_openapi:
        _refresh_openapi([options.kubectl, *([f"--kubeconfig={options.kubeconfig}"] if options.kubeconfig else [])])
    if options.check:
        return _check_files(root)
    sys.stdout.write("".join(f"{path}\n" for path in write_files(root)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What the wheel installs: one package, in whose folder the packages of the repository are.

They import each other by their own names (`api`, `kube`, ...), which are too common for site-packages. So the command
adds this folder to the path of its own process, and of processes that it starts. In the repository they stand beside
this folder and are found there.
"""

import os
import sys
from pathlib import Path

_HERE = Path(__file__).parent


def main() -> int:
    """The command `jobset`; gives the exit code."""
    _find_packages()
    try:
        from cli.main import main as command  # noqa: PLC0415 (found only now)

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
    """The program that kubectl asks what may follow `kubectl jobset`; gives the exit code."""
    _find_packages()
    from cli.main import complete_for_kubectl  # noqa: PLC0415 (as above)

    return complete_for_kubectl()


def _find_packages() -> None:
    """Let this process, and those that it starts, find the packages in this folder."""
    if (_HERE / "app").is_dir():
        sys.path.insert(0, str(_HERE))
        inherited = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(_HERE), *([inherited] if inherited else [])])

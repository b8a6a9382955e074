"""Checks whether this machine can run real nodes.

As a program, this module tries the system calls of a node in new namespaces.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from dev.cluster.real import cgroups, kernel, netlink

HINT = "Fake nodes (--nodes) run here."
TOOLS = ("apt-get", "dpkg-deb", "nsenter")


def real_nodes_missing() -> str | None:
    """A sentence about what this machine lacks for real nodes; None if it can run them."""
    requirement = _missing_requirement()
    return f"real nodes cannot run on this machine: {requirement}. {HINT}" if requirement else None


def _missing_requirement() -> str:
    if sys.platform != "linux":
        return f"they need Linux, and this is {platform.system()}"
    if os.geteuid() != 0:
        return "they need root, for namespaces, mounts and cgroups"
    if platform.machine() not in kernel.PIVOT_ROOT:
        return f"they need one of the processors {', '.join(kernel.PIVOT_ROOT)}, and this is {platform.machine()}"
    if tools := [name for name in TOOLS if shutil.which(name) is None]:
        return f"they need the commands {', '.join(tools)}, which Debian and Ubuntu have"
    if missing := _missing_cgroups(cgroups.own_hierarchies()):
        return missing
    command = [sys.executable, "-m", __name__]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own module
    return answer.stderr.strip().rpartition("\n")[2] if answer.returncode else ""


def _missing_cgroups(hierarchies: list[cgroups.Hierarchy]) -> str:
    parents = [parent for hierarchy in hierarchies if (parent := hierarchy.parent())]
    if len(parents) < len(hierarchies):
        return f"no cgroup above this process gives its children {', '.join(cgroups.CONTROLLERS)}"
    if read_only := [str(parent) for parent in parents if not os.access(parent, os.W_OK)]:
        return f"no cgroup can be made below {', '.join(read_only)}"
    if hierarchies and hierarchies[0].version == 2:
        return ""
    controllers = {option for hierarchy in hierarchies for option in hierarchy.options.split(",")}
    missing = [name for name in cgroups.CONTROLLERS if name not in controllers]
    return f"no cgroup hierarchy is mounted that has {', '.join(missing)}" if missing else ""


def _try_system_calls() -> None:
    """Try the system calls of a node. Raises OSError if the kernel refuses one of them."""
    kernel.unshare(kernel.NEW_MOUNTS | kernel.NEW_CGROUPS | kernel.NEW_NAMES | kernel.NEW_IPC | kernel.NEW_NETWORK)
    netlink.add_bridge("probe")
    netlink.add_cable("probe0", "probe1", kernel.open_namespace("self"))
    netlink.request_nftables()
    kernel.mount("none", "/", flags=kernel.RECURSIVE | kernel.PRIVATE)
    kernel.mount("probe", "/run", "tmpfs")
    for name in ("lower", "upper", "work", "merged"):
        Path("/run", name).mkdir()
    kernel.mount("probe", "/run/merged", "overlay", data="lowerdir=/run/lower,upperdir=/run/upper,workdir=/run/work")


if __name__ == "__main__":
    try:
        _try_system_calls()
    except OSError as error:
        sys.exit(f"the kernel refuses a part of them ({error.strerror})")

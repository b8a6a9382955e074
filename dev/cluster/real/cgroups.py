"""Creates and removes the cgroups of a node, below the cgroup of this process in each hierarchy."""

import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dev.cluster.real import layout as real
from dev.cluster.real.layout import RealNode
from dev.cluster.spec import Layout

CONTROLLERS = ("cpu", "memory", "pids")
"""Controllers that the kubelet needs."""
_REMOVE_SECONDS = 5.0


@dataclass(frozen=True)
class Hierarchy:
    """A mounted cgroup hierarchy. `options` mount it again. `top`: its root. `own_folder`: that of this process."""

    version: int
    options: str
    top: Path
    own_folder: Path

    def parent(self) -> Path | None:
        """The parent of a node's cgroup; None if no cgroup can be the parent.

        In version 2, a cgroup has either processes or children with controllers. So the parent is the nearest cgroup
        above this process that already gives its children the controllers.
        """
        if self.version == 1:
            return self.own_folder
        for folder in (self.own_folder, *self.own_folder.parents):
            if set(CONTROLLERS) <= set((folder / "cgroup.subtree_control").read_text().split()):
                return folder
            if folder == self.top:
                break
        return None


def hierarchies(mounts: str, own_cgroups: str) -> list[Hierarchy]:
    """The hierarchies in the texts of /proc/self/mountinfo (`mounts`) and /proc/self/cgroup (`own_cgroups`).

    They are all hierarchies of version 1, or else the first mounted hierarchy of version 2.
    """
    paths = {}
    for line in own_cgroups.splitlines():
        _, names, path = line.split(":", 2)
        paths[names] = path
    all_hierarchies = [each for line in mounts.splitlines() if (each := _hierarchy(line, paths))]
    version_1 = [each for each in all_hierarchies if each.version == 1]
    return version_1 or all_hierarchies[:1]


def _hierarchy(line: str, paths: Mapping[str, str]) -> Hierarchy | None:
    mount_point, _, file_system = line.partition(" - ")
    root, top = mount_point.split()[3:5]
    kind, _, options = file_system.split()[:3]
    if kind not in {"cgroup", "cgroup2"}:
        return None
    mount_options = set(options.split(","))
    names = (
        ""
        if kind == "cgroup2"
        else next((each for each in paths if each and set(each.split(",")) <= mount_options), None)
    )
    if names is None or names not in paths:
        return None
    # In a container, the mount begins at the container's own cgroup. The path may begin there, too, or at the root.
    path = paths[names].removeprefix(root) if root != "/" else paths[names]
    mount_data = f"none,{names}" if names.startswith("name=") else names
    return Hierarchy(2 if kind == "cgroup2" else 1, mount_data, Path(top), Path(top, path.strip("/")))


def own_hierarchies() -> list[Hierarchy]:
    return hierarchies(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())


def create_cgroups(node: RealNode) -> list[Path]:
    """Create the cgroups of a node. Their paths are stored first, so that `remove_remains` finds all of them."""
    name = f"jobset-{node.layout.root.name}-{node.layout.root.stat().st_ino}-{node.name}"  # differs between clusters
    hierarchy_by_folder = {
        parent / name: hierarchy for hierarchy in own_hierarchies() if (parent := hierarchy.parent())
    }
    node.cgroups.write_text("".join(f"{folder}\n" for folder in hierarchy_by_folder))
    for folder, hierarchy in hierarchy_by_folder.items():
        folder.mkdir(exist_ok=True)
        if "cpuset" in hierarchy.options.split(","):
            for file in ("cpuset.cpus", "cpuset.mems"):
                (folder / file).write_text((folder.parent / file).read_text())
    return list(hierarchy_by_folder)


def move_into(folders: Iterable[Path]) -> None:
    """Move this process into the cgroups."""
    for folder in folders:
        (folder / "cgroup.procs").write_text("0")


def remove_node_cgroups(node: RealNode) -> None:
    """Remove the cgroups of a node whose processes are gone."""
    if node.cgroups.exists():
        remove(Path(line) for line in node.cgroups.read_text().splitlines())
        node.cgroups.unlink()


def remove_remains(layout: Layout) -> None:
    """Remove the cgroups of real nodes after their supervisor was killed. Nothing else is left of the nodes."""
    for file in real.folder(layout).glob("real-*/cgroups"):
        remove_node_cgroups(RealNode(layout, int(file.parent.name.removeprefix("real-"))))


def remove(folders: Iterable[Path]) -> None:
    """Kill all processes in the cgroups and their children, and remove them. Missing cgroups are not errors."""
    deadline = time.monotonic() + _REMOVE_SECONDS
    for folder in folders:
        while folder.is_dir():
            for file in (folder / "cgroup.procs", *folder.rglob("cgroup.procs")):
                with suppress(OSError):
                    for pid in file.read_text().split():
                        os.kill(int(pid), signal.SIGKILL)
            for each in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
                with suppress(OSError):
                    each.rmdir()
            try:
                folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

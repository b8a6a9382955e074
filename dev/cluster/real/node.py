"""`python -m dev.cluster.real.node ROOT INDEX`: runs one real node, and restarts it after a power cut.

The node's PID 1 is a child of this process in a new PID namespace. When this process ends, the kernel kills all
processes of the node, which removes its mounts and its network. This process removes the cgroups. If it is killed,
`cgroups.remove_remains` removes them.
"""

import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from dev.cluster.components import Plan
from dev.cluster.real import cgroups, config, init, kernel
from dev.cluster.real import layout as real
from dev.cluster.real.layout import RealNode
from dev.cluster.spec import Layout, replace_text

_POLL_SECONDS, _PAUSE_SECONDS = 0.1, 1.0


class Runner:
    """Starts PID 1 of the node, waits for its end and cleans up."""

    def __init__(self, plan: Plan, index: int) -> None:
        self._plan = plan
        self._node = RealNode(plan.layout, index)
        self._pid = 0
        self._stopped = False
        signal.signal(signal.SIGTERM, self._stop)

    def run(self) -> None:
        while not self._is_stopped():
            if self._node.off.exists():
                time.sleep(_POLL_SECONDS)
                continue
            cgroup_folders = cgroups.create_cgroups(self._node)
            self._pid = self._start(cgroup_folders)
            replace_text(self._node.process, str(self._pid))
            if self._is_stopped():
                self._kill()  # the signal came before the process existed
            _, status = os.waitpid(self._pid, 0)
            self._pid = 0
            self._node.process.unlink(missing_ok=True)
            cgroups.remove_node_cgroups(self._node)
            print(f"the node ended: {os.waitstatus_to_exitcode(status)}", flush=True)  # noqa: T201
            time.sleep(_PAUSE_SECONDS)

    def _start(self, cgroup_folders: Sequence[Path]) -> int:
        """Fork PID 1. Returns its process id on the machine."""
        node_process = self._node_process(cgroup_folders)
        own_namespace = kernel.open_namespace("self", "pid")
        kernel.unshare(kernel.NEW_PROCESSES)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                init.run(node_process)
            except BaseException:  # noqa: BLE001 - it is the last thing that this process says
                traceback.print_exc()
            os._exit(1)
        kernel.enter_namespace(own_namespace)
        for descriptor in (
            own_namespace,
            node_process.bridge_descriptor,
            *(service.log_descriptor for service in node_process.services),
        ):
            os.close(descriptor)
        return pid

    def _node_process(self, cgroup_folders: Sequence[Path]) -> init.NodeProcess:
        node, plan = self._node, self._plan
        labels = ",".join(f"{key}={value}" for key, value in config.labels(plan, node).items())
        services = [
            init.Service(
                name, argv, os.open(plan.layout.log(f"{node.name}-{name}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            )
            for name, argv in init.programs(node, labels).items()
        ]
        return init.NodeProcess(
            node=node,
            node_count=plan.spec.real_nodes,
            assets=Path(plan.node_assets),
            bridge_descriptor=kernel.open_namespace(real.network_process(plan.layout).read_text()),
            cgroup_folders=cgroup_folders,
            kubelet=services[1],
            services=services,
        )

    def _is_stopped(self) -> bool:
        """Whether SIGTERM has come. A method, since type checkers do not know that a signal changes the field."""
        return self._stopped

    def _stop(self, *_: object) -> None:
        self._stopped = True
        self._kill()

    def _kill(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)


if __name__ == "__main__":
    Runner(Plan.read(Layout(Path(sys.argv[1]))), int(sys.argv[2])).run()

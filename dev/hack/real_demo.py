"""`make demo REAL=1`: plays a training whose containers run, on nodes with a kubelet, with a manager in pods.

A rank is killed, and the training continues from its checkpoint. A rank hangs, and the watchdog ends it and logs its
stacks. The set is dev/hack/real_demo.yaml.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from dev import local
from dev.cluster.cluster import Cluster
from dev.cluster.real.load import load_image
from dev.cluster.spec import ClusterSpec
from dev.demo.demo import Demo, Status, Story, count_jobs, event_lines, run, wait_until
from dev.hack.node_images import locate_images
from dev.local import kubectl

MANIFEST = Path(__file__).with_suffix(".yaml")
INDEX = "batch.kubernetes.io/job-completion-index"
NODES = 2
KILLED, HANGS = 3, 2
"""Ranks that are killed and that hang."""


def start_manager(cluster: Cluster, _: Story) -> str:
    """Load the images, install the manager as pods, and wait until it is ready. Returns the command for its log."""
    for name, layout in locate_images().items():
        load_image(cluster.plan, layout, name)
    return local.install_in_pods(cluster, gates=("InPlaceRestart",))


def play_training(demo: Demo) -> None:
    """Play the training from its start through a killed rank and a hang to its end."""
    kubectl(demo.cluster, "apply", "-f", str(MANIFEST))
    demo.say(f"applied dev/hack/{MANIFEST.name}: 4 ranks on {NODES} nodes, each a program that runs in a container")
    demo.watch_until(lambda status: count_jobs(status, "ready") == 1, "all ranks run")
    _show_line(demo, 0, "step 30:")
    demo.say(f"they have found each other by their DNS names, and train; now rank {KILLED} gets SIGKILL")
    _run_in(demo, KILLED, "kill -9 $(cat /state/pid)")
    demo.watch_until(_has_restarted(1), "the first restart in place")
    _show_line(demo, 0, r"start at step [1-9]\d*")
    demo.say("all ranks restarted in their pods, and train from their checkpoints")
    _show_line(demo, 0, r"step \d+0:")
    demo.say(f"now rank {HANGS} hangs: it waits for data that never come, and all others wait for it")
    _run_in(demo, HANGS, "touch /state/hang")
    demo.watch_until(_has_restarted(2), "the restart after the hang")
    demo.say("the watchdog has ended them after 5 s without a step; the stacks are in the log:")
    for pattern in ("no heartbeat", "wait_for_data_that_never_comes"):
        _show_line(demo, HANGS, pattern)
    demo.watch_until(lambda status: status.get("terminalState") == "Completed", "Completed")
    demo.say("Completed. What happened, as its events say:")
    for event in event_lines(demo.cluster):
        demo.console.print(f"         {event}", highlight=False)


def _has_restarted(times: int) -> Callable[[Status], bool]:
    return lambda status: status.get("currentInPlaceRestartAttempt") == times and count_jobs(status, "ready") == 1


def _pod(demo: Demo, rank: int) -> str:
    return demo.pods(**{INDEX: str(rank)})[0]


def _run_in(demo: Demo, rank: int, command: str) -> None:
    kubectl(demo.cluster, "exec", _pod(demo, rank), "-c", "rank", "--", "sh", "-c", command)


def _show_line(demo: Demo, rank: int, pattern: str) -> None:
    """Wait for a line of the rank's log, before or after its last restart, and print it."""
    matching_lines: list[str] = []

    def is_written() -> bool:
        for flag in ("--previous", "--previous=false"):
            log = kubectl(demo.cluster, "logs", _pod(demo, rank), "-c", "rank", flag, check=False).stdout
            matching_lines.extend(line for line in log.splitlines() if re.search(pattern, line))
        return bool(matching_lines)

    wait_until(is_written, f"{pattern!r} in the log of rank {rank}")
    demo.console.print(f"         {matching_lines[-1]}", highlight=False, markup=False)


if __name__ == "__main__":
    story = Story("training", play_training, spec=ClusterSpec(name="real-demo", real_nodes=NODES), start=start_manager)
    sys.exit(run(story, keep="--keep" in sys.argv))

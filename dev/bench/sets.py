"""Makes the JobSets of the scenarios, and checks them at the end of a phase.

Manifests have the defaults that webhooks would set, since a floor has no webhooks.
"""

from collections import Counter, defaultdict

from api import keys
from dev import local
from dev.bench.scene import BenchmarkError, Scene
from dev.cluster.nodes import EXIT_CODE
from dev.cluster.real.assets import SHELL_IMAGE
from dev.cluster.rest import MERGE
from kube.model.meta import JSON

BATCH_API = "/apis/batch/v1"
TOPOLOGY = "rack"
"""The label of nodes that is the domain of exclusive placement."""

HALF_A_NODE = "16"
"""CPUs of a pod. A rack of ten nodes has room for two Jobs of ten such pods, so that Jobs share racks unless they have
exclusive placement."""


def jobset(jobs: int, pods: int = 1, *, name: str = "bench", cpu: str = "", exclusive: bool = False) -> JSON:
    """A JobSet of equal Jobs, each of which fails with its first failed pod. `cpu` is the request of a pod."""
    container: JSON = {"name": "main", "image": "train"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    job = {
        "backoffLimit": 0,
        "parallelism": pods,
        "completions": pods,
        "completionMode": "Indexed",
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    return {
        "apiVersion": keys.API_VERSION,
        "kind": keys.KIND,
        "metadata": {"name": name, "annotations": {keys.EXCLUSIVE_TOPOLOGY: TOPOLOGY} if exclusive else {}},
        "spec": {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "failurePolicy": {"maxRestarts": 10},
            "replicatedJobs": [{"name": "workers", "replicas": jobs, "template": {"spec": job}}],
        },
    }


def real_jobset(jobs: int, pods: int) -> JSON:
    """A JobSet for real nodes, whose containers run until they get a signal, and then fail."""
    manifest = jobset(jobs, pods)
    [group] = manifest["spec"]["replicatedJobs"]
    [container] = group["template"]["spec"]["template"]["spec"]["containers"]
    script = "trap 'exit 1' TERM; sleep 1000000 & wait"
    container |= {"image": SHELL_IMAGE, "command": ["/bin/sh", "-c", script]}
    return manifest


def job_and_pod_counts(manifest: JSON) -> tuple[int, int]:
    """The number of Jobs of a JobSet, and the number of its pods."""
    [group] = manifest["spec"]["replicatedJobs"]
    return group["replicas"], group["replicas"] * group["template"]["spec"]["parallelism"]


def attempt_selector(number: int) -> str:
    """Label selector of the pods of a restart attempt."""
    return f"{keys.RESTART_ATTEMPT}={number}"


def job_name(pod: JSON) -> str:
    return str(pod["metadata"]["labels"]["job-name"])


def statuses(scene: Scene) -> list[JSON]:
    """The status of every JobSet of the namespace."""
    return [jobset.get("status") or {} for jobset in scene.items(scene.jobsets_path)]


def is_reported(scene: Scene, *, restarts: int = 0, **counters: int) -> bool:
    """Whether the counts of all JobSets (`ready`, ...) sum up to `counters`, and each has this number of restarts."""
    all_statuses = statuses(scene)
    rows = [row for status in all_statuses for row in status.get("replicatedJobsStatus") or ()]
    return all(status.get("restarts", 0) == restarts for status in all_statuses) and all(
        sum(row[name] for row in rows) == count for name, count in counters.items()
    )


def fail_one(scene: Scene, pods: list[JSON]) -> None:
    """Fail one pod, which is a follower if there is one, since the leader of a Job is a special case."""
    failed_pod = max(pods, key=lambda pod: pod["metadata"]["labels"].get(keys.COMPLETION_INDEX, "0") != "0")
    end_pod(scene, failed_pod["metadata"]["name"], code=1)


def fail_real_pod(scene: Scene, pods: list[JSON]) -> None:
    """Make the program of a pod on a real node fail. The command that ends it may be killed, too (137)."""
    name = pods[-1]["metadata"]["name"]
    local.kubectl(scene.cluster, "exec", f"--namespace={scene.namespace}", name, "--", "kill", "1", check=False)


def end_pod(scene: Scene, pod: str, *, code: int) -> None:
    """End a running pod with an exit code."""
    path = f"{scene.path('pods')}/{pod}"
    scene.request("PATCH", path, {"metadata": {"annotations": {EXIT_CODE: str(code)}}}, MERGE)


def running_pods(scene: Scene, pods: int, *, restarts: int = 0) -> list[JSON]:
    """All pods. Raises `BenchmarkError` unless there are `pods` pods, all of one attempt, and all run."""
    all_pods = scene.items(scene.path("pods"))
    counts_by_state = Counter((pod["metadata"]["labels"][keys.RESTART_ATTEMPT], _pod_state(pod)) for pod in all_pods)
    if counts_by_state != {(str(restarts), "Running"): pods}:
        states = ", ".join(
            f"{count} {state} of attempt {number}" for (number, state), count in sorted(counts_by_state.items())
        )
        raise BenchmarkError(
            f"expected {pods} running pods of attempt {restarts} and no others, found: {states or 'none'}"
        )
    return all_pods


def _pod_state(pod: JSON) -> str:
    return "in deletion" if "deletionTimestamp" in pod["metadata"] else str(pod["status"].get("phase"))


def check_exclusive(scene: Scene, pods: list[JSON]) -> None:
    """Raise `BenchmarkError` unless each Job has a rack of its own."""
    racks = {node["metadata"]["name"]: node["metadata"]["labels"][TOPOLOGY] for node in scene.items("/api/v1/nodes")}
    if errors := placement_errors([(job_name(pod), racks[pod["spec"]["nodeName"]]) for pod in pods]):
        raise BenchmarkError(f"not exclusive: {'; '.join(errors)}")


def placement_errors(pods: list[tuple[str, str]]) -> list[str]:
    """Texts about Jobs on several racks and racks with several Jobs. `pods` has the (Job, rack) of each pod."""
    racks_by_job, jobs_by_rack = defaultdict(set), defaultdict(set)
    for job, rack in pods:
        racks_by_job[job].add(rack)
        jobs_by_rack[rack].add(job)
    shared = [(f"Job {job} is on", racks) for job, racks in sorted(racks_by_job.items())]
    shared += [(f"{rack} holds", jobs) for rack, jobs in sorted(jobs_by_rack.items())]
    return [f"{subject} {', '.join(sorted(names))}" for subject, names in shared if len(names) > 1]

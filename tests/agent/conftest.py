"""Real agents against a real API server, where the test plays the JobSet controller."""

import contextlib
import socket
import threading

import pytest

from api import keys
from tests.support.cluster import agents
from tests.support.cluster.jobs import JOBSETS
from tests.support.cluster.requests import MERGE, request, wait_for


@pytest.fixture(scope="session")
def agent_file(tmp_path_factory):
    return agents.build(tmp_path_factory.mktemp("agent"))


@pytest.fixture
def stage(jobset_server, namespace, agent_file, tmp_path):
    stage = Stage(jobset_server, namespace, agent_file, tmp_path)
    yield stage
    stage.close()


@pytest.fixture
def line(jobset_server):
    """A way to the API server that a test can cut."""
    with contextlib.closing(Line(jobset_server.plan.ports["kube-apiserver"])) as line:
        yield line


class Stage:
    """One JobSet, one pod, and the agents started for it."""

    def __init__(self, cluster, namespace, file, folder):
        self.cluster, self.namespace, self.file, self.folder = cluster, namespace, file, folder
        agents.rights(cluster, namespace)
        self.account = agents.account(cluster, namespace, folder / "account")
        self.started = []
        self._jobsets = JOBSETS.format(namespace)
        spec = {"containers": [{"name": "main", "image": "busybox"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
        status, answer = request(cluster, "POST", f"/api/v1/namespaces/{namespace}/pods", pod)
        assert status == 201, answer

    def jobset(self, *, strategy="InPlaceRestart", annotations=None, **status):
        """Create it, with `previous` and `current` in its status."""
        body = agents.example()[3]
        body["metadata"] = {"name": "js", "annotations": annotations or {}}
        body["spec"]["failurePolicy"]["restartStrategy"] = strategy
        self.create(body)
        if status:
            self.attempts(**status)

    def create(self, body):
        code, answer = request(self.cluster, "POST", self._jobsets, body)
        assert code == 201, answer

    def get(self):
        return request(self.cluster, "GET", f"{self._jobsets}/js")[1]

    def attempts(self, **status):
        names = {"previous": "previousInPlaceRestartAttempt", "current": "currentInPlaceRestartAttempt"}
        self.patch_status(**{names[key]: value for key, value in status.items()})

    def patch_status(self, **status):
        body = {"status": {"restarts": 0, **status}}
        code, answer = request(self.cluster, "PATCH", f"{self._jobsets}/js/status", body, MERGE)
        assert code == 200, answer

    def annotate(self, **annotations):
        body = {
            "metadata": {
                "annotations": {f"jobset.sigs.k8s.io/{k.replace('_', '-')}": v for k, v in annotations.items()}
            }
        }
        code, answer = request(self.cluster, "PATCH", f"{self._jobsets}/js", body, MERGE)
        assert code == 200, answer

    def delete(self):
        request(self.cluster, "DELETE", f"{self._jobsets}/js")

    def pod(self):
        return request(self.cluster, "GET", f"/api/v1/namespaces/{self.namespace}/pods/pod")[1]

    def reported_attempt(self):
        """The attempt on the pod; None if there is none."""
        return self.pod()["metadata"].get("annotations", {}).get(agents.ANNOTATION)

    def reported_failure(self):
        """How the worker failed, as its agent says with that; None if it says nothing."""
        return self.pod()["metadata"].get("annotations", {}).get(keys.IN_PLACE_RESTART_FAILURE)

    def agent(self, command=None, port=None, ignored=(), **env):
        """Start one, by a parent that ignores these signals; in sidecar mode if it has no command."""
        base = {
            "JOBSET_NAME": "js",
            "POD_NAME": "pod",
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(port or self.cluster.plan.ports["kube-apiserver"]),
            "SERVICE_ACCOUNT_DIR": str(self.account),
            "FOLDER": str(self.folder),
            **({"WORKER_COMMAND": command} if command else {}),
        }
        log = self.folder / f"agent-{len(self.started)}.log"
        process = agents.Process(self.file, log, {**base, **env}, ignored=ignored)
        self.started.append(process)
        return process

    def file_text(self, name, timeout=20):
        """What a worker wrote into a file of the test's folder, once there is a whole line."""
        path = self.folder / name

        def text():
            return path.read_text() if path.exists() and path.read_text().endswith("\n") else ""

        return wait_for(text, timeout=timeout, what=f"the worker's {name}").strip()

    def close(self):
        for process in self.started:
            process.close()


class Line:
    """Hands bytes on between the agent and the API server while it is up."""

    def __init__(self, target):
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._up = True
        self._open = []
        self._threads = []
        self._start(self._accept)

    def _start(self, work, *args):
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            if not self._up:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self._target))
            self._open += [near, far]
            self._start(self._pump, near, far)
            self._start(self._pump, far, near)

    def _pump(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """Break what is open and let nobody in."""
        self._up = False
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def repair(self):
        self._up = True

    def close(self):
        self.cut()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for thread in self._threads:
            thread.join(5)
        for end in self._open:
            end.close()

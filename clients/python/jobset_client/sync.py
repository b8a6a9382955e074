"""The client that blocks. It needs the package `kubernetes`: `pip install 'jobset-client[sync]'`."""

import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from typing import Any, Self, TypeVar

try:
    import urllib3
    from kubernetes.client import ApiClient, Configuration
    from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
except ImportError as error:
    raise ImportError("jobset_client.sync needs the package kubernetes: pip install 'jobset-client[sync]'") from error

from jobset_client import cluster, connections, credentials, operations
from jobset_client.core import Answer, Call, Emit, Operation, Read, Sleep, Step
from jobset_client.errors import UnreachableError
from jobset_client.explaining import Explanation
from jobset_client.logs import PodLog, Wanted
from jobset_client.models import JobSet
from jobset_client.operations import Event
from jobset_client.states import State

T = TypeVar("T")
JobSets = list[JobSet]
_PIECE = 1 << 16


class Client:
    """Creates JobSets, reads and changes them, and waits for them.

    `api_client`: a `kubernetes.client.ApiClient`, which stays the caller's. Without one: the kubeconfig (`kubeconfig`,
    else KUBECONFIG, else ~/.kube/config) with `context`, or the service account of the pod. `namespace`: where nothing
    else is said; default: that of the context or pod. One client may be used by several threads.
    """

    def __init__(
        self,
        api_client: Any = None,
        *,
        namespace: str | None = None,
        kubeconfig: str | None = None,
        context: str | None = None,
    ) -> None:
        self._own = api_client is None
        if api_client is None:
            api_client, found = _connect(kubeconfig, context)
            namespace = namespace or found
        self._api = api_client
        self.namespace = namespace or cluster.DEFAULT

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, unless they are the caller's."""
        if self._own:
            self._api.close()

    def create(self, jobset: JobSet, *, namespace: str | None = None, dry_run: bool = False) -> JobSet:
        """Create it; gives it as the API server stored it. `dry_run`: let it be checked, and store nothing."""
        return self._run(operations.create(jobset, self.namespace, dry_run=dry_run, namespace=namespace))

    def get(self, name: str, *, namespace: str | None = None) -> JobSet:
        """Read one. Raises `NotFoundError`."""
        return self._run(operations.get(name, namespace or self.namespace))

    def list(
        self,
        *,
        namespace: str | None = None,
        everywhere: bool = False,
        labels: str = "",
        most: int = operations.MOST_LISTED,
    ) -> JobSets:
        """All of the namespace, or of all. `labels`: a selector, `team=a,tier!=test`. More than `most`: an error."""
        return self._run(operations.list_(None if everywhere else namespace or self.namespace, labels, most))

    def patch(self, name: str, changes: Mapping[str, Any], *, namespace: str | None = None) -> JobSet:
        """Change some of its fields, with the names of the API: `{"metadata": {"labels": {"team": "a"}}}`.

        A field with None is taken away. Raises `InvalidError` for a field that does not change any more.
        """
        return self._run(operations.patch(name, namespace or self.namespace, changes))

    def delete(self, name: str, *, namespace: str | None = None, propagation: str = "Background") -> None:
        """Delete it; Jobs and pods follow. `propagation`: Foreground: it goes after them; Orphan: they stay."""
        return self._run(operations.delete(name, namespace or self.namespace, propagation))

    def watch(
        self,
        *,
        name: str = "",
        namespace: str | None = None,
        everywhere: bool = False,
        labels: str = "",
        timeout: float | None = None,
    ) -> Iterator[Event]:
        """Each JobSet that there is as ADDED, then each change, until the timeout in seconds; without end if None."""
        where = None if everywhere else namespace or self.namespace
        return self._drive(operations.watch(where, name, labels, timeout))

    def wait(
        self, name: str, state: State = "finished", *, namespace: str | None = None, timeout: float | None = None
    ) -> JobSet:
        """Wait until it is completed, failed, finished (one of both), ready or suspended; gives it as it is then.

        Raises `NeverError` as soon as it never will be, `WaitTimeoutError` after `timeout` seconds.
        """
        return self._run(operations.wait(name, namespace or self.namespace, state, timeout))

    def suspend(self, name: str, *, namespace: str | None = None) -> JobSet:
        """End its pods and keep its Jobs."""
        return self._run(operations.suspend(name, namespace or self.namespace))

    def resume(self, name: str, *, namespace: str | None = None) -> JobSet:
        """Let the pods of a suspended JobSet run."""
        return self._run(operations.resume(name, namespace or self.namespace))

    def restart(self, name: str, *, namespace: str | None = None, timeout: float | None = 300) -> JobSet:
        """End its pods and start them again: suspend, wait at most `timeout` seconds until its Jobs are, resume."""
        return self._run(operations.restart(name, namespace or self.namespace, timeout))

    def logs(
        self,
        name: str,
        *,
        namespace: str | None = None,
        job: str = "",
        container: str = "",
        attempt: int | None = None,
        tail: int | None = 100,
    ) -> Iterator[PodLog]:
        """What its containers have written, one after the other, the one that failed first at the top; at most 100.

        `job`, such as `train-workers-0`, and `container`: only of these. `attempt`: restarts before it; default: the
        latest with pods. `tail`: last lines of each; None for all, of which the API server gives 4 MiB.
        """
        wanted = Wanted(job=job, container=container, attempt=attempt, tail=tail)
        return self._drive(operations.logs(name, namespace or self.namespace, wanted))

    def explain(self, name: str, *, namespace: str | None = None) -> Explanation:
        """What it waits for, or how it ended: `print(client.explain("train"))`.

        It reads the JobSet and its events; the command `jobset explain` reads Jobs, pods, nodes and queues as well.
        """
        return self._run(operations.explain(name, namespace or self.namespace))

    def _run(self, operation: Operation[T]) -> T:
        """Run an operation that emits nothing."""
        driven = self._drive(operation)
        while True:
            try:
                next(driven)
            except StopIteration as end:
                result: T = end.value
                return result

    def _drive(self, operation: Operation[T]) -> Generator[Any, None, T]:
        """Do the steps of an operation, and give what it emits."""
        with closing(operation), closing(_Wire(self._api)) as wire:
            try:
                step = next(operation)
                while True:
                    answer = Answer()
                    if isinstance(step, Emit):
                        yield step.value
                    else:
                        try:
                            answer = wire.do(step)
                        except BaseException as error:  # noqa: BLE001 (the operation decides, and raises it again)
                            step = operation.throw(error)
                            continue
                    step = operation.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result


class _Wire:
    """Steps as requests. Has at most one stream open."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._stream: urllib3.HTTPResponse | None = None
        self._pieces: Iterator[bytes] = iter(())

    def close(self) -> None:
        """Close the stream, with its connection: what is left of it is not read."""
        if self._stream is not None:
            self._stream.close()
            self._stream.release_conn()
            self._stream = None

    def do(self, step: Step) -> Answer:
        match step:
            case Call():
                try:
                    return self._call(step)
                except (urllib3.exceptions.HTTPError, OSError) as error:
                    raise self._unreachable_error(step.task, error, step.answer_timeout) from error
            case Read():
                return self._read(step)
            case Sleep():
                time.sleep(step.seconds)
        return Answer()

    def _call(self, call: Call) -> Answer:
        self.close()
        configuration = self._api.configuration
        headers = cluster.headers(call)
        for setting in configuration.auth_settings().values():
            if setting["in"] == "header" and setting["value"]:
                headers[setting["key"]] = setting["value"]
        response = self._api.rest_client.pool_manager.request(
            call.method,
            cluster.url(configuration.host, call),
            body=cluster.body(call),
            headers=headers,
            timeout=urllib3.Timeout(connect=call.answer_timeout, read=call.timeout),
            retries=False,
            preload_content=False,
        )
        self._stream = response
        body = b""
        if not call.stream or response.status != 200:
            until = time.monotonic() + call.timeout
            whole = cluster.Body(call)
            for piece in response.stream(_PIECE, decode_content=True):
                whole.add(piece)
                if time.monotonic() > until:
                    raise TimeoutError
            body = whole.bytes
            response.release_conn()
            self._stream = None
        else:
            self._pieces = response.stream(_PIECE, decode_content=True)
        server = connections.without_credentials(configuration.host)
        warnings = tuple(response.headers.getlist("Warning"))
        return Answer(response.status, body, warnings, response.headers.get("Retry-After", ""), server)

    def _read(self, step: Read) -> Answer:
        if self._stream is None:
            return Answer()
        try:
            return Answer(body=next(filter(None, self._pieces), b""))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unreachable_error("go on with the watch", error, step.timeout) from error

    def _unreachable_error(self, task: str, error: Exception, seconds: float) -> UnreachableError:
        configuration = self._api.configuration
        return connections.unreachable_error(task, configuration.host, error, seconds, configuration.proxy)


def _connect(kubeconfig: str | None, context: str | None) -> tuple[ApiClient, str]:
    """A connection, and the namespace of the context or the pod."""
    chosen, configuration = credentials.choose(kubeconfig, context), Configuration()
    try:
        if chosen.file:
            load_kube_config(chosen.file, context=context, client_configuration=configuration)
        else:
            load_incluster_config(client_configuration=configuration)
    except (ConfigException, *credentials.FAULTS) as error:
        raise credentials.unusable(chosen, error) from error
    credentials.check(chosen, configuration)
    return ApiClient(configuration), chosen.namespace

"""The blocking client. It needs the package `kubernetes`: `pip install 'jobset-client[sync]'`."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

try:
    import urllib3
    from kubernetes.client import ApiClient, Configuration
    from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
except ImportError as error:
    raise ImportError("jobset_client.sync needs the package kubernetes: pip install 'jobset-client[sync]'") from error

from jobset_client import cluster, credentials, operations
from jobset_client.core import Answer, Call, Emit, Emitter, Operation, Read, Sleep, Step
from jobset_client.errors import JobSetError

T = TypeVar("T")
P = ParamSpec("P")
_PIECE_BYTES = 1 << 16


def _as_function(operation: Callable[Concatenate[str, P], Operation[T]]) -> Callable[Concatenate["Client", P], T]:
    """A method that runs the operation and returns its result."""

    def method(client: "Client", /, *args: P.args, **options: P.kwargs) -> T:
        try:
            return client._run(operation(client.namespace, *args, **options))  # noqa: SLF001 (its own method)
        except JobSetError as error:
            raise error.with_traceback(None) from None  # frames of this package do not help its user

    return cluster.present_as(operation, method)


def _as_iterator(
    operation: Callable[Concatenate[str, P], Emitter[T]],
) -> Callable[Concatenate["Client", P], Iterator[T]]:
    """A generator method that yields what the operation emits."""

    def method(client: "Client", /, *args: P.args, **options: P.kwargs) -> Iterator[T]:
        return _with_short_traceback(client._drive(operation(client.namespace, *args, **options)))  # noqa: SLF001 (the same)

    return cluster.present_as(operation, method)


def _with_short_traceback(emitted_values: Generator[T, None, None]) -> Iterator[T]:
    try:
        yield from emitted_values
    except JobSetError as error:
        raise error.with_traceback(None) from None


class Client:
    """Creates JobSets, reads and changes them, and waits for them.

    `api_client`: a `kubernetes.client.ApiClient`, which the caller closes. Without `api_client`, the client uses the
    kubeconfig (`kubeconfig`, else KUBECONFIG, else ~/.kube/config) with `context`, or the service account of the pod.
    `namespace`: the namespace of calls that name none; default: the namespace of the context or pod. Several threads
    may use one client.
    """

    def __init__(
        self,
        api_client: Any = None,
        *,
        namespace: str | None = None,
        kubeconfig: str | None = None,
        context: str | None = None,
    ) -> None:
        self._owns_api = api_client is None
        if api_client is None:
            api_client, context_namespace = _connect(kubeconfig, context)
            namespace = namespace or context_namespace
        self._api = api_client
        self.namespace = namespace or cluster.DEFAULT_NAMESPACE

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, unless they are the caller's."""
        if self._owns_api:
            self._api.close()

    create = _as_function(operations.create)
    get = _as_function(operations.get)
    list = _as_function(operations.list_)
    patch = _as_function(operations.patch)
    delete = _as_function(operations.delete)
    watch = _as_iterator(operations.watch)
    wait = _as_function(operations.wait)
    suspend = _as_function(operations.suspend)
    resume = _as_function(operations.resume)
    restart = _as_function(operations.restart)
    scale = _as_function(operations.scale)
    logs = _as_iterator(operations.logs)
    explain = _as_function(operations.explain)

    def _run(self, operation: Operation[T]) -> T:
        """Run an operation that emits nothing."""
        emitted_values = self._drive(operation)
        while True:
            try:
                next(emitted_values)
            except StopIteration as end:
                result: T = end.value
                return result

    def _drive(self, operation: Generator[Step | Emit[Any], Answer, T]) -> Generator[Any, None, T]:
        """Run the steps of an operation, and yield the values that it emits. Returns its result."""
        with closing(operation), closing(_Wire(self._api)) as wire:
            try:
                step = next(operation)
                while True:
                    answer = Answer()
                    if isinstance(step, Emit):
                        yield step.value
                    else:
                        try:
                            answer = wire.execute(step)
                        except BaseException as error:  # noqa: BLE001 (the operation decides, and raises it again)
                            step = operation.throw(error)
                            continue
                    step = operation.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result


class _Wire(cluster.Wire[urllib3.HTTPResponse]):
    """Carries out steps as HTTP requests. At most one stream is open."""

    _pieces: Iterator[bytes] = iter(())

    def close(self) -> None:
        """Close the stream and its connection, without reading the rest."""
        if self._stream is not None:
            self._stream.close()
            self._stream.release_conn()
            self._stream = None

    def execute(self, step: Step) -> Answer:
        match step:
            case Call():
                try:
                    return self._call(step)
                except (urllib3.exceptions.HTTPError, OSError) as error:
                    raise self.unreachable_error(step.task, error, step.answer_timeout) from error
            case Read():
                return self._read(step)
            case Sleep():
                time.sleep(step.seconds)
        return Answer()

    def _call(self, call: Call) -> Answer:
        self.close()
        configuration = self._api.configuration
        response = self._api.rest_client.pool_manager.request(
            call.method,
            cluster.url(configuration.host, call),
            body=cluster.body(call),
            headers=cluster.headers(call, configuration.auth_settings()),
            timeout=urllib3.Timeout(connect=call.answer_timeout, read=call.timeout),
            retries=False,
            preload_content=False,
        )
        self._stream = response
        body = b""
        if not call.stream or response.status != 200:
            deadline = time.monotonic() + call.timeout
            answer_body = cluster.Body(call)
            for piece in response.stream(_PIECE_BYTES, decode_content=True):
                answer_body.add(piece)
                if time.monotonic() > deadline:
                    raise TimeoutError
            body = answer_body.bytes
            response.release_conn()
            self._stream = None
        else:
            self._pieces = response.stream(_PIECE_BYTES, decode_content=True)
        return self.answer(response, body, response.headers.getlist("Warning"))

    def _read(self, step: Read) -> Answer:
        if self._stream is None:
            return Answer()
        try:
            return Answer(body=next(filter(None, self._pieces), b""))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self.unreachable_error("go on with the watch", error, step.timeout) from error


def _connect(kubeconfig: str | None, context: str | None) -> tuple[ApiClient, str]:
    """A connection, and the namespace of the context or the pod."""
    chosen, configuration = credentials.choose(kubeconfig, context), Configuration()
    with credentials.guard_loading(chosen, configuration, ConfigException):
        if chosen.file:
            load_kube_config(chosen.file, context=context, client_configuration=configuration)
        else:
            load_incluster_config(client_configuration=configuration)
    return ApiClient(configuration), chosen.namespace

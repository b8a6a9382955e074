"""The client for asyncio. It needs the package `kubernetes_asyncio`: `pip install 'jobset-client[async]'`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, MutableSequence
from contextlib import aclosing, closing
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

try:
    import aiohttp
    from kubernetes_asyncio.client import ApiClient, Configuration
    from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config
except ImportError as error:
    raise ImportError(
        "jobset_client.aio needs the package kubernetes_asyncio: pip install 'jobset-client[async]'"
    ) from error

from jobset_client import cluster, credentials, operations
from jobset_client.core import Answer, Call, Emit, Emitter, Operation, Read, Sleep, Step
from jobset_client.errors import JobSetError

T = TypeVar("T")
P = ParamSpec("P")
_PIECE_BYTES = 1 << 16


def _as_coroutine(
    operation: Callable[Concatenate[str, P], Operation[T]],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    """A method that runs the operation and returns its result."""

    async def method(client: "AsyncClient", /, *args: P.args, **options: P.kwargs) -> T:
        try:
            return await client._run(operation(client.namespace, *args, **options))  # noqa: SLF001 (its own method)
        except JobSetError as error:
            raise error.with_traceback(None) from None  # frames of this package do not help its user

    return cluster.present_as(operation, method)


def _as_iterator(
    operation: Callable[Concatenate[str, P], Emitter[T]],
) -> Callable[Concatenate["AsyncClient", P], AsyncIterator[T]]:
    """An async generator method that yields what the operation emits."""

    def method(client: "AsyncClient", /, *args: P.args, **options: P.kwargs) -> AsyncIterator[T]:
        driven = client._drive(operation(client.namespace, *args, **options), [])  # noqa: SLF001 (its own method)
        return _with_short_traceback(driven)

    return cluster.present_as(operation, method)


async def _with_short_traceback(driven: AsyncGenerator[T, None]) -> AsyncIterator[T]:
    async with aclosing(driven):
        try:
            async for value in driven:
                yield value
        except JobSetError as error:
            raise error.with_traceback(None) from None


class AsyncClient:
    """`jobset_client.sync.Client` for asyncio: the same methods, to be awaited, and `async for` over `watch`.

    `api_client`: a `kubernetes_asyncio.client.ApiClient`, which the caller closes. Without `api_client`, enter the
    client (`async with AsyncClient() as client`), which reads the credentials.
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
        self._api = api_client
        self._namespace = namespace
        self._kubeconfig, self._context = kubeconfig, context
        self.namespace = namespace or cluster.DEFAULT_NAMESPACE

    async def __aenter__(self) -> Self:
        if self._api is None:
            self._api, context_namespace = await _connect(self._kubeconfig, self._context)
            self.namespace = self._namespace or context_namespace or cluster.DEFAULT_NAMESPACE
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, unless they are the caller's."""
        if self._owns_api and self._api is not None:
            await self._api.close()
            self._api = None

    create = _as_coroutine(operations.create)
    get = _as_coroutine(operations.get)
    list = _as_coroutine(operations.list_)
    patch = _as_coroutine(operations.patch)
    delete = _as_coroutine(operations.delete)
    watch = _as_iterator(operations.watch)
    wait = _as_coroutine(operations.wait)
    suspend = _as_coroutine(operations.suspend)
    resume = _as_coroutine(operations.resume)
    restart = _as_coroutine(operations.restart)
    scale = _as_coroutine(operations.scale)
    logs = _as_iterator(operations.logs)
    explain = _as_coroutine(operations.explain)

    async def _run(self, operation: Operation[T]) -> T:
        """Run an operation that emits nothing."""
        result: MutableSequence[T] = []
        async with aclosing(self._drive(operation, result)) as driven:
            async for _ in driven:
                pass
        return result[0]

    async def _drive(
        self, operation: Generator[Step | Emit[Any], Answer, T], result: MutableSequence[T]
    ) -> AsyncGenerator[Any, None]:
        """Run the steps of an operation, and yield the values that it emits. Appends its result to `result`."""
        if self._api is None:
            raise JobSetError("the client is closed, or not entered yet: async with AsyncClient() as client")
        with closing(operation), closing(_Wire(self._api)) as wire:
            try:
                step = next(operation)
                while True:
                    answer = Answer()
                    if isinstance(step, Emit):
                        yield step.value
                    else:
                        try:
                            answer = await wire.execute(step)
                        except BaseException as error:  # noqa: BLE001 (the operation decides, and raises it again)
                            step = operation.throw(error)
                            continue
                    step = operation.send(answer)
            except StopIteration as end:
                result.append(end.value)


class _Wire(cluster.Wire[aiohttp.ClientResponse]):
    """Carries out steps as HTTP requests. At most one stream is open."""

    def close(self) -> None:
        """Close the stream and its connection, without reading the rest.

        The connection is aborted, since a background close might not finish before `asyncio.run` ends, which gives a
        ResourceWarning.
        """
        if self._stream is not None:
            connection = self._stream.connection
            if connection is not None and connection.transport is not None:
                connection.transport.abort()
            self._stream.close()
            self._stream = None

    async def execute(self, step: Step) -> Answer:
        match step:
            case Call():
                try:
                    async with asyncio.timeout(step.answer_timeout):
                        return await self._call(step)
                except (aiohttp.ClientError, OSError) as error:
                    raise self.unreachable_error(step.task, error, step.answer_timeout) from error
            case Read():
                return await self._read(step)
            case Sleep():
                await asyncio.sleep(step.seconds)
        return Answer()

    async def _call(self, call: Call) -> Answer:
        self.close()
        configuration = self._api.configuration
        rest_client = self._api.rest_client
        tls_options = {"server_hostname": rest_client.server_hostname} if rest_client.server_hostname else {}
        response = await rest_client.pool_manager.request(
            call.method,
            cluster.url(configuration.host, call),
            data=cluster.body(call),
            headers=cluster.headers(call, await configuration.auth_settings()),
            timeout=aiohttp.ClientTimeout(),
            allow_redirects=False,
            proxy=rest_client.proxy,
            proxy_headers=rest_client.proxy_headers,
            **tls_options,
        )
        self._stream = response
        body = b""
        if not call.stream or response.status != 200:
            answer_body = cluster.Body(call)
            async for piece in response.content.iter_chunked(_PIECE_BYTES):
                answer_body.add(piece)
            body = answer_body.bytes
            response.release()
            self._stream = None
        return self.answer(response, body, response.headers.getall("Warning", ()))

    async def _read(self, step: Read) -> Answer:
        if self._stream is None:
            return Answer()
        try:
            async with asyncio.timeout(step.timeout):
                return Answer(body=await self._stream.content.readany())
        except (aiohttp.ClientError, OSError) as error:
            raise self.unreachable_error("go on with the watch", error, step.timeout) from error


async def _connect(kubeconfig: str | None, context: str | None) -> tuple[ApiClient, str]:
    """A connection, and the namespace of the context or the pod."""
    chosen, configuration = credentials.choose(kubeconfig, context), Configuration()
    with credentials.guard_loading(chosen, configuration, ConfigException):
        if chosen.file:
            await load_kube_config(chosen.file, context=context, client_configuration=configuration)
        else:
            load_incluster_config(client_configuration=configuration)
    return ApiClient(configuration), chosen.namespace

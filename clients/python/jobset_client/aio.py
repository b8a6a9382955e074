"""The client for asyncio. It needs the package `kubernetes_asyncio`: `pip install 'jobset-client[async]'`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, MutableSequence
from contextlib import aclosing, closing
from typing import Any, Self, TypeVar

try:
    import aiohttp
    from kubernetes_asyncio.client import ApiClient, Configuration
    from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config
except ImportError as error:
    raise ImportError(
        "jobset_client.aio needs the package kubernetes_asyncio: pip install 'jobset-client[async]'"
    ) from error

from jobset_client import cluster, connections, credentials, operations
from jobset_client.core import Answer, Call, Emit, Operation, Read, Sleep, Step
from jobset_client.errors import JobSetError, UnreachableError
from jobset_client.explaining import Explanation
from jobset_client.logs import PodLog, Wanted
from jobset_client.models import JobSet
from jobset_client.operations import Event
from jobset_client.states import State

T = TypeVar("T")
JobSets = list[JobSet]
_PIECE = 1 << 16


class AsyncClient:
    """`jobset_client.sync.Client` for asyncio: the same methods, to be awaited, and `async for` over `watch`.

    `api_client`: a `kubernetes_asyncio.client.ApiClient`, which stays the caller's. Without one, enter the client
    (`async with AsyncClient() as client`): that reads the credentials.
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
        self._api = api_client
        self._given = namespace
        self._kubeconfig, self._context = kubeconfig, context
        self.namespace = namespace or cluster.DEFAULT

    async def __aenter__(self) -> Self:
        if self._api is None:
            self._api, found = await _connect(self._kubeconfig, self._context)
            self.namespace = self._given or found or cluster.DEFAULT
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, unless they are the caller's."""
        if self._own and self._api is not None:
            await self._api.close()
            self._api = None

    async def create(self, jobset: JobSet, *, namespace: str | None = None, dry_run: bool = False) -> JobSet:
        """Create it; gives it as the API server stored it. `dry_run`: let it be checked, and store nothing."""
        return await self._run(operations.create(jobset, self.namespace, dry_run=dry_run, namespace=namespace))

    async def get(self, name: str, *, namespace: str | None = None) -> JobSet:
        """Read one. Raises `NotFoundError`."""
        return await self._run(operations.get(name, namespace or self.namespace))

    async def list(
        self,
        *,
        namespace: str | None = None,
        everywhere: bool = False,
        labels: str = "",
        most: int = operations.MOST_LISTED,
    ) -> JobSets:
        """All of the namespace, or of all. `labels`: a selector, `team=a,tier!=test`. More than `most`: an error."""
        return await self._run(operations.list_(None if everywhere else namespace or self.namespace, labels, most))

    async def patch(self, name: str, changes: Mapping[str, Any], *, namespace: str | None = None) -> JobSet:
        """Change some of its fields, with the names of the API: `{"metadata": {"labels": {"team": "a"}}}`.

        A field with None is taken away. Raises `InvalidError` for a field that does not change any more.
        """
        return await self._run(operations.patch(name, namespace or self.namespace, changes))

    async def delete(self, name: str, *, namespace: str | None = None, propagation: str = "Background") -> None:
        """Delete it; Jobs and pods follow. `propagation`: Foreground: it goes after them; Orphan: they stay."""
        return await self._run(operations.delete(name, namespace or self.namespace, propagation))

    def watch(
        self,
        *,
        name: str = "",
        namespace: str | None = None,
        everywhere: bool = False,
        labels: str = "",
        timeout: float | None = None,
    ) -> AsyncIterator[Event]:
        """Each JobSet that there is as ADDED, then each change, until the timeout in seconds; without end if None."""
        where = None if everywhere else namespace or self.namespace
        return self._drive(operations.watch(where, name, labels, timeout), [])

    async def wait(
        self, name: str, state: State = "finished", *, namespace: str | None = None, timeout: float | None = None
    ) -> JobSet:
        """Wait until it is completed, failed, finished (one of both), ready or suspended; gives it as it is then.

        Raises `NeverError` as soon as it never will be, `WaitTimeoutError` after `timeout` seconds.
        """
        return await self._run(operations.wait(name, namespace or self.namespace, state, timeout))

    async def suspend(self, name: str, *, namespace: str | None = None) -> JobSet:
        """End its pods and keep its Jobs."""
        return await self._run(operations.suspend(name, namespace or self.namespace))

    async def resume(self, name: str, *, namespace: str | None = None) -> JobSet:
        """Let the pods of a suspended JobSet run."""
        return await self._run(operations.resume(name, namespace or self.namespace))

    async def restart(self, name: str, *, namespace: str | None = None, timeout: float | None = 300) -> JobSet:
        """End its pods and start them again: suspend, wait at most `timeout` seconds until its Jobs are, resume."""
        return await self._run(operations.restart(name, namespace or self.namespace, timeout))

    def logs(
        self,
        name: str,
        *,
        namespace: str | None = None,
        job: str = "",
        container: str = "",
        attempt: int | None = None,
        tail: int | None = 100,
    ) -> AsyncIterator[PodLog]:
        """What its containers have written, one after the other, the one that failed first at the top; at most 100.

        `job`, such as `train-workers-0`, and `container`: only of these. `attempt`: restarts before it; default: the
        latest with pods. `tail`: last lines of each; None for all, of which the API server gives 4 MiB.
        """
        wanted = Wanted(job=job, container=container, attempt=attempt, tail=tail)
        return self._drive(operations.logs(name, namespace or self.namespace, wanted), [])

    async def explain(self, name: str, *, namespace: str | None = None) -> Explanation:
        """What it waits for, or how it ended: `print(await client.explain("train"))`.

        It reads the JobSet and its events; the command `jobset explain` reads Jobs, pods, nodes and queues as well.
        """
        return await self._run(operations.explain(name, namespace or self.namespace))

    async def _run(self, operation: Operation[T]) -> T:
        """Run an operation that emits nothing."""
        result: MutableSequence[T] = []
        async with aclosing(self._drive(operation, result)) as driven:
            async for _ in driven:
                pass
        return result[0]

    async def _drive(self, operation: Operation[T], result: MutableSequence[T]) -> AsyncGenerator[Any, None]:
        """Do the steps of an operation, and give what it emits; its result goes into the list."""
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
                            answer = await wire.do(step)
                        except BaseException as error:  # noqa: BLE001 (the operation decides, and raises it again)
                            step = operation.throw(error)
                            continue
                    step = operation.send(answer)
            except StopIteration as end:
                result.append(end.value)


class _Wire:
    """Steps as requests. Has at most one stream open."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._stream: aiohttp.ClientResponse | None = None

    def close(self) -> None:
        """Close the stream, with its connection: what is left of it is not read.

        The connection is aborted: one that closes in the background is not waited for, and `asyncio.run` would end
        before it is closed, with a ResourceWarning.
        """
        if self._stream is not None:
            connection = self._stream.connection
            if connection is not None and connection.transport is not None:
                connection.transport.abort()
            self._stream.close()
            self._stream = None

    async def do(self, step: Step) -> Answer:
        match step:
            case Call():
                try:
                    async with asyncio.timeout(step.answer_timeout):
                        return await self._call(step)
                except (aiohttp.ClientError, OSError) as error:
                    raise self._unreachable_error(step.task, error, step.answer_timeout) from error
            case Read():
                return await self._read(step)
            case Sleep():
                await asyncio.sleep(step.seconds)
        return Answer()

    async def _call(self, call: Call) -> Answer:
        self.close()
        configuration = self._api.configuration
        headers = cluster.headers(call)
        for setting in (await configuration.auth_settings()).values():
            if setting["in"] == "header" and setting["value"]:
                headers[setting["key"]] = setting["value"]
        rest_client = self._api.rest_client
        more = {"server_hostname": rest_client.server_hostname} if rest_client.server_hostname else {}
        response = await rest_client.pool_manager.request(
            call.method,
            cluster.url(configuration.host, call),
            data=cluster.body(call),
            headers=headers,
            timeout=aiohttp.ClientTimeout(),
            allow_redirects=False,
            proxy=rest_client.proxy,
            proxy_headers=rest_client.proxy_headers,
            **more,
        )
        self._stream = response
        body = b""
        if not call.stream or response.status != 200:
            whole = cluster.Body(call)
            async for piece in response.content.iter_chunked(_PIECE):
                whole.add(piece)
            body = whole.bytes
            response.release()
            self._stream = None
        server = connections.without_credentials(configuration.host)
        warnings = tuple(response.headers.getall("Warning", ()))
        return Answer(response.status, body, warnings, response.headers.get("Retry-After", ""), server)

    async def _read(self, step: Read) -> Answer:
        if self._stream is None:
            return Answer()
        try:
            async with asyncio.timeout(step.timeout):
                return Answer(body=await self._stream.content.readany())
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable_error("go on with the watch", error, step.timeout) from error

    def _unreachable_error(self, task: str, error: Exception, seconds: float) -> UnreachableError:
        configuration = self._api.configuration
        return connections.unreachable_error(task, configuration.host, error, seconds, configuration.proxy)


async def _connect(kubeconfig: str | None, context: str | None) -> tuple[ApiClient, str]:
    """A connection, and the namespace of the context or the pod."""
    chosen, configuration = credentials.choose(kubeconfig, context), Configuration()
    try:
        if chosen.file:
            await load_kube_config(chosen.file, context=context, client_configuration=configuration)
        else:
            load_incluster_config(client_configuration=configuration)
    except (ConfigException, *credentials.FAULTS) as error:
        raise credentials.unusable(chosen, error) from error
    credentials.check(chosen, configuration)
    return ApiClient(configuration), chosen.namespace

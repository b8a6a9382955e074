"""What all commands that use a cluster have in common: checks of names, the connection, and error messages."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TextIO, TypeVar
from urllib.parse import urlsplit

from api.batch import OwnedObject
from api.jobset import JobSet
from app.version import user_agent
from cli.messages import write_messages
from controllers.resources import JOBSETS
from httpserver.address import BindError, is_loopback
from jobset_client.errors import NeverError, RefusedError
from kube.client import Client
from kube.config import explain_error, load
from kube.errors import ApiError, BadRequest, KubeError, NotFound, TransportError, Unauthorized, missing_right
from kube.model.field import quote
from kube.model.suggest import MAX_CANDIDATES, did_you_mean, nearest
from kube.model.validation import dns1123_subdomain
from kube.options import COMMAND_TIMEOUT, METADATA_LIST
from kube.resources import NAMESPACES
from kube.transport import HttpTransport

SILENCE_SECONDS = 5.0
"""Seconds after which the user is told that the API server does not answer."""
DONE, FAILED, NOT_DONE = 0, 1, 2
"""Exit codes. FAILED: it is not possible, for the reason in the message. NOT_DONE: wrong usage, or no answer."""
NOT_INSTALLED = (
    f"JobSet is not installed in this cluster (no CRD {JOBSETS.plural}.{JOBSETS.group}): install it with `helm install`"
    " or, in a clone, `make install`: see docs/quick-start.md"
)
_Options = TypeVar("_Options")
_Work = Callable[[_Options, TextIO, TextIO], Coroutine[Any, Any, int]]
"""The coroutine function of a command. It takes the options, standard output and standard error."""
_Run = Callable[[_Options, TextIO, TextIO], int]
_JOBSET_KINDS = ("jobset", "jobsets", "js", "jobset.jobset.x-k8s.io", "jobsets.jobset.x-k8s.io")


class UsageError(Exception):
    """The arguments of the command are invalid. The text says why."""


class NoJobSetError(Exception):
    """The JobSet does not exist. The text suggests existing JobSets."""


class NoRightError(KubeError):
    """The user lacks a right. The text says which right to ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFlags:
    """Flags for cluster and namespace. An empty text means the default kubeconfig, context or namespace."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedJobSet(ClusterFlags):
    """Flags for cluster and namespace, and the argument `NAME` or `jobset/NAME` of a JobSet."""

    name: str


@dataclass(frozen=True, slots=True)
class Session:
    """A connection to a cluster, and the namespace of the command."""

    client: Client
    namespace: str


def jobset_name(text: str) -> str:
    """The name in an argument `NAME` or `jobset/NAME`. Raises `UsageError`."""
    kind, slash, name = text.rpartition("/")
    if slash and kind not in _JOBSET_KINDS:
        raise UsageError(f"{text!r} is not a name: write NAME or jobset/NAME")
    return check_name(name)


def check_name(name: str) -> str:
    """The name, which is safe as a part of a URL path. Raises `UsageError` for an invalid name."""
    if not name or dns1123_subdomain(name):
        raise UsageError(f"{name!r} is not a name: lower case letters, digits, - and . only")
    return name


@contextlib.asynccontextmanager
async def connect(flags: ClusterFlags) -> AsyncIterator[Session]:
    """Connect with the user's credentials, for the length of the block.

    Raises `KubeError`, whose text names the kubeconfig if its credentials or its server are wrong.
    """
    if flags.namespace:
        check_name(flags.namespace)
    credentials = await load(flags.kubeconfig or None, flags.context or None)
    silence_warning = _SilenceWarning(credentials.server)
    transport = HttpTransport(credentials, user_agent=user_agent(), metrics=silence_warning)
    try:
        yield Session(Client(transport), flags.namespace or credentials.namespace or "default")
    except (Unauthorized, BadRequest, TransportError) as error:
        text = explain_error(error, flags.kubeconfig, flags.context)
        raise KubeError(text + _local_cluster_hint(error, credentials.server)) from error
    finally:
        silence_warning.cancel()
        await transport.close()


async def get_jobset(session: Session, name: str) -> JobSet:
    """The JobSet of this name. Raises `NoJobSetError`."""
    namespace = session.namespace
    async with explain_missing_jobset(session, name):
        return await session.client.get(JOBSETS, name, namespace=namespace, type=JobSet, timeout=COMMAND_TIMEOUT)


@contextlib.asynccontextmanager
async def open_jobset(named: NamedJobSet) -> AsyncIterator[tuple[Session, JobSet]]:
    """Connect, and read the JobSet. Raises `NoJobSetError`, also if the JobSet is deleted during the block."""
    name = jobset_name(named.name)
    async with connect(named) as connection, explain_missing_jobset(connection, name):
        yield connection, await get_jobset(connection, name)


def _local_cluster_hint(error: KubeError, server: str) -> str:
    """The end of a message about a server on this machine, which may be a stopped local cluster; else empty."""
    is_local = isinstance(error, TransportError) and not error.sent and is_loopback(urlsplit(server).hostname or "")
    hint = "; if it is a local cluster of this program, jobset cluster status says whether it still runs"
    return hint if is_local else ""


class _SilenceWarning:
    """Tells the user after `SILENCE_SECONDS` that no request has been answered or has failed yet."""

    def __init__(self, server: str) -> None:
        text = f"jobset: {server} has not answered for {SILENCE_SECONDS:g} s: waiting\n"
        self._timer = asyncio.get_running_loop().call_later(SILENCE_SECONDS, sys.stderr.write, text)

    def cancel(self) -> None:
        self._timer.cancel()

    def on_request(self, code: str, method: str, host: str) -> None:  # noqa: ARG002 - see RequestMetrics
        self.cancel()


async def jobset_names(session: Session) -> list[str]:
    """The names of at most `MAX_CANDIDATES` JobSets of the namespace."""
    return [js.metadata.name for js in await _list_jobsets(session.client, namespace=session.namespace)]


async def refuse_missing_namespace(session: Session) -> None:
    """Raise `UsageError` if the namespace of the command does not exist."""
    if message := await _missing_namespace_message(session.client, session.namespace):
        raise UsageError(message)


async def _missing_namespace_message(client: Client, namespace: str) -> str:
    """A message if the namespace does not exist, with a similar name; empty if it exists or this is not known."""
    try:
        await client.get(NAMESPACES, namespace, type=OwnedObject, timeout=COMMAND_TIMEOUT)
    except NotFound:
        text = f"there is no namespace {namespace}"
    except (KubeError, TimeoutError):
        return ""
    else:
        return ""
    try:
        page = await client.list(
            NAMESPACES, type=OwnedObject, accept=METADATA_LIST, limit=MAX_CANDIDATES, timeout=COMMAND_TIMEOUT
        )
    except (KubeError, TimeoutError):
        return text
    similar_name = nearest(namespace, [item.metadata.name for item in page.items or ()])
    return f"{text}; did you mean {quote(similar_name)}?" if similar_name else text


@contextlib.asynccontextmanager
async def explain_missing_jobset(session: Session, name: str) -> AsyncIterator[None]:
    """Raise `NoJobSetError` if the block raises `NotFound`, unless the API server does not serve the path."""
    try:
        yield
    except NotFound as error:
        if not error.details.kind:
            raise
        raise NoJobSetError(await _missing_jobset_message(session.client, session.namespace, name)) from error


def command(name: str, verbs: str = "get") -> Callable[[_Work[_Options]], _Run[_Options]]:
    """A decorator that makes a coroutine function the function `run` of a command.

    `run` executes the coroutine, writes an error to `err` in one line, and returns the exit code. `verbs`: the verbs on
    JobSets that the command needs; empty if it needs rights on other resources.
    """

    def decorate(work: _Work[_Options]) -> _Run[_Options]:
        def run(options: _Options, out: TextIO, err: TextIO) -> int:
            try:
                return asyncio.run(work(options, out, err))
            except (NoJobSetError, RefusedError, NeverError) as error:
                code, text = FAILED, str(error)
            except (UsageError, BindError, KubeError, TimeoutError) as error:
                code, text = NOT_DONE, _error_message(error, verbs, everywhere=getattr(options, "everywhere", False))
            write_messages(name, [text], err)
            return code

        return run

    return decorate


async def _missing_jobset_message(client: Client, namespace: str, name: str) -> str:
    """The message about a JobSet that does not exist, with a similar name."""
    text = f"there is no JobSet {name} in namespace {namespace}"
    try:
        names_here = await jobset_names(Session(client, namespace))
        elsewhere = await _list_jobsets(client, field_selector=f"metadata.name={name}")
    except (KubeError, TimeoutError):
        return text
    if elsewhere:
        return f"{text}, but in {elsewhere[0].metadata.namespace}: use -n {elsewhere[0].metadata.namespace}"
    if not names_here and (namespace_message := await _missing_namespace_message(client, namespace)):
        return namespace_message
    suggestion = did_you_mean(name, names_here)
    return f"{text}; {suggestion}" if suggestion else f"{text}: there is none at all"


async def _list_jobsets(client: Client, **options: str) -> Sequence[OwnedObject]:
    page = await client.list(
        JOBSETS, type=OwnedObject, accept=METADATA_LIST, limit=MAX_CANDIDATES, timeout=COMMAND_TIMEOUT, **options
    )
    return page.items or ()


def _error_message(error: Exception, verbs: str, *, everywhere: bool) -> str:
    """The message about an error. If the user lacks a right, the message names the right.

    `everywhere`: whether the command reads all namespaces, so that the message suggests a single namespace.
    """
    if isinstance(error, NoRightError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"the API server did not answer within {COMMAND_TIMEOUT:g} s"
    if isinstance(error, NotFound) and not error.details.kind and f"/apis/{JOBSETS.group}/" in error.call.path:
        return NOT_INSTALLED
    if verbs and isinstance(error, ApiError) and error.code == 403:
        scope = " in all namespaces, or name one that you may read with -n NAMESPACE" if everywhere else ""
        return f"{error}; ask for the right to {verbs} jobsets.jobset.x-k8s.io{scope}"
    if missing_verb_and_resource := missing_right(error):
        return f"{error}; ask for the right to {missing_verb_and_resource}"
    return str(error)

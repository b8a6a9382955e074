"""Whether a pod of a new JobSet requests more than any node of the cluster can hold, even an idle node. Warnings.

Such pods wait forever, and no status shows it. Each resource is compared with the largest amount that a node has
(`status.allocatable`), whatever the node's labels and taints, and whether it is cordoned or not. The set is not
refused, since nodes may be added later, also by an autoscaler. A set in a queue of Kueue gets no warning, since Kueue
may request nodes when it admits the set. A set also gets no warning if the nodes are unknown: without the right to list
them, without nodes, with too many nodes, or without an answer in time.

Remembered: what the nodes offer, for 60 s. If it has changed, a warning is out of date.
"""

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from api.node_offers import device_meant, format_amount, format_number, offers_of
from kube.client import PAGE_SIZE, Client
from kube.errors import Forbidden
from kube.model.field import ErrorType, FieldError
from kube.model.requests import Amounts, exceeding_resources
from kube.resources import NODES
from policy.judged import JudgedJobSet, Template
from webhooks.jobset.cluster.capacity import domain_shortage_warnings, node_shortage_warnings
from webhooks.jobset.cluster.lookups import Lookups
from webhooks.jobset.cluster.verdict import warning
from webhooks.offload import compute

CACHE_SECONDS = 60.0
"""Seconds for which the nodes are not read again, even if reading them timed out."""
MAX_PAGES = 4
"""At most this many pages of the list of nodes are read: 2,000 nodes."""
MAX_RESOURCES = 256
"""If the nodes offer more resources than this, they count as unknown."""
_TIMEOUT_DIVISOR = 3
"""The list of nodes gets the seconds for one review divided by this, so that time is left for other requests."""
MAX_LABELS = 256
"""The most keys of node labels whose values are counted."""


class Offers(NamedTuple):
    """The resources and labels that the nodes offer.

    - `largest`: for each resource the largest amount of one node.
    - `total`: for each resource the sum of all nodes.
    - `domains`: for each key of a label the number of its values.

    `total` and `domains` are empty for checks without the rights of the JobSet's author.
    """

    largest: Amounts = {}
    total: Amounts = {}
    domains: Mapping[str, int] = {}


_UNKNOWN_OFFERS = Offers()

NO_RESOURCE = warning(
    "node-resource-missing",
    "no node offers {name}: pods wait for one that does",
    "{what_to_check}",
    kind=ErrorType.NOT_FOUND,
)
TOO_LARGE = warning(
    "nodes-too-small",
    "a pod needs {amount}, {what_nodes_have}: it waits for a larger one",
    "request less, or add larger nodes",
    kind=ErrorType.TOO_MANY,
)


class _Status(msgspec.Struct, gc=False):
    allocatable: dict[str, Any] | None = None


class _Metadata(msgspec.Struct, gc=False):
    labels: dict[str, str] | None = None


class _Node(msgspec.Struct, gc=False):
    """The fields of a node that are read."""

    metadata: _Metadata | None = None
    status: _Status | None = None


def unmet_request_warnings(judged: JudgedJobSet, largest: Amounts, *, has_author_rights: bool) -> Iterator[FieldError]:
    """Warnings about a resource that no node offers, and about a resource of which no node has enough.

    Each ReplicatedJob gets at most one of each. Of several resources the first by name is reported.
    `has_author_rights`: warnings say how much the largest node has.
    """
    for template in judged.templates:
        needs = {name: amount for name, amount in template.requests.items() if amount > 0} if template.pod_count else {}
        missing_resource = min(needs.keys() - largest.keys(), default="")
        if missing_resource:
            check = partial(_what_to_check, missing_resource, largest)
            yield NO_RESOURCE.at(
                template.request_path(missing_resource), missing_resource, name=missing_resource, what_to_check=check
            )
        scarce_resource = min(exceeding_resources(needs, largest), default="")
        if scarce_resource:
            yield _too_large(template, scarce_resource, largest, has_author_rights=has_author_rights)


def _what_to_check(missing_resource: str, largest: Amounts) -> str:
    if meant := device_meant(missing_resource, largest):
        return f"did you mean {meant}?"
    return "does its device plugin run?" if "/" in missing_resource else "add such nodes"


def _too_large(template: Template, name: str, largest: Amounts, *, has_author_rights: bool) -> FieldError:
    largest_amount = format_number(largest[name], name)
    what_nodes_have = f"the largest node has {largest_amount}" if has_author_rights else "more than any node has"
    amount = format_amount(template.requests[name], name)
    return TOO_LARGE.at(template.request_path(name), None, amount=amount, what_nodes_have=what_nodes_have)


class Nodes:
    """Reads the nodes, and remembers what they offer. A process has one instance."""

    def __init__(self, timeout: float, *, has_author_rights: bool) -> None:
        """`timeout`: seconds for all requests about one review. `has_author_rights` as for `unmet_request_warnings`."""
        self._timeout = timeout / _TIMEOUT_DIVISOR
        self._has_author_rights = has_author_rights
        self._offers: Lookups[None, Offers] = Lookups(1)

    async def warnings(self, judged: JudgedJobSet, client: Client) -> list[FieldError]:
        """Warnings about a new JobSet. Raises errors of the request, except for a missing right and a timeout."""
        offers = await self._offers.get(None, lambda: self._read_offers(client), lambda _: CACHE_SECONDS)
        return await compute(self._shortage_warnings, judged, offers) if offers.largest else []

    def _shortage_warnings(self, judged: JudgedJobSet, offers: Offers) -> list[FieldError]:
        unmet = list(unmet_request_warnings(judged, offers.largest, has_author_rights=self._has_author_rights))
        return [
            *(unmet or node_shortage_warnings(judged, offers.total)),
            *domain_shortage_warnings(judged, offers.domains),
        ]

    async def _read_offers(self, client: Client) -> Offers:
        try:
            async with asyncio.timeout(self._timeout):
                return await _list_offers(client, with_totals=self._has_author_rights)
        except (Forbidden, TimeoutError):
            return _UNKNOWN_OFFERS


async def _list_offers(client: Client, *, with_totals: bool) -> Offers:
    """What the nodes offer. `with_totals`: whether to fill `total` and `domains`, too."""
    largest: Amounts = {}
    total: Amounts = {}
    label_values: dict[str, set[str]] = {}
    token = ""
    for _ in range(MAX_PAGES):
        page = await client.list(NODES, type=_Node, limit=PAGE_SIZE, continue_token=token)
        for node in page.items or ():
            for name, amount in offers_of(node.status and node.status.allocatable).items():
                largest[name] = max(amount, largest.get(name, 0))
                total[name] = amount + total.get(name, 0)
            for key, value in ((node.metadata and node.metadata.labels) or {}).items() if with_totals else ():
                if key in label_values or len(label_values) < MAX_LABELS:
                    label_values.setdefault(key, set()).add(value)
        if len(largest) > MAX_RESOURCES:
            return _UNKNOWN_OFFERS
        token = page.metadata.continue_token
        if not token:
            domains = {key: len(values) for key, values in label_values.items()}
            return Offers(largest, total, domains) if with_totals else Offers(largest)
    return _UNKNOWN_OFFERS

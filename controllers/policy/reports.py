"""Writes the results of an audit as objects of OpenReports, one for each namespace and policy, if they have changed.

Empty reports, and reports about deleted policies, are deleted. Without their CRD nothing is written. A
report of the same name that another program has created is not changed.
"""

import logging
from typing import Final

from kube.client import Client
from kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from kube.model.meta import JSON, PartialObjectMetadata
from kube.options import METADATA_LIST
from kube.resources import Resource
from policy.audit import Audit
from policy.reports import DIGEST, REPORT_KIND, REPORT_LABEL, REPORT_PLURAL, REPORTS_GROUP, REPORTS_VERSION, report

log = logging.getLogger(__name__)

REPORTS: Final = Resource(REPORTS_GROUP, REPORTS_VERSION, REPORT_KIND, REPORT_PLURAL)


class PolicyReports:
    """Writes the results of audits; errors of the API server are logged, not raised."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def write(self, audit: Audit) -> None:
        """Write the results of an audit. A failed write is logged, and repeated after the next audit."""
        try:
            if REPORT_PLURAL in await self._client.served_resources(REPORTS.api_version):
                await self._write(audit)
        except KubeError as error:
            log.warning("reports about policies are not written: %s", error)

    async def _write(self, audit: Audit) -> None:
        policies = {policy.metadata.name: policy for policy in audit.policies}
        stored_reports = {
            (stored_report.metadata.namespace, stored_report.metadata.name): stored_report.metadata
            async for stored_report in self._client.pages(
                REPORTS, type=PartialObjectMetadata, label_selector=f"{REPORT_LABEL}=true", accept=METADATA_LIST
            )
        }
        for (namespace, policy), results in audit.reports.items():
            body = report(policies[policy], namespace, results)
            stored_meta = stored_reports.pop((namespace, body["metadata"]["name"]), None)
            if stored_meta is None or stored_meta.annotations.get(DIGEST) != body["metadata"]["annotations"][DIGEST]:
                await self._store(body, is_new=stored_meta is None)
        for meta in stored_reports.values():
            try:
                await self._client.delete(REPORTS, meta.name, namespace=meta.namespace, uid=meta.uid)
            except NotFound:
                continue

    async def _store(self, body: JSON, *, is_new: bool) -> None:
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        try:
            if is_new:
                await self._client.create(REPORTS, body, namespace=namespace)
            else:
                await self._client.patch(REPORTS, name, body, namespace=namespace)
        except AlreadyExists:
            log.warning("report %s/%s belongs to another program: ours is left out", namespace, name)
        except (NotFound, Forbidden) as error:
            log.info("report %s/%s is left out, such as in a namespace that goes: %s", namespace, name, error)

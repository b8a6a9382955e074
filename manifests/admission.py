"""The webhook configurations (docs/reference/manager.md#webhook-registrations), with the address that they call."""

import base64
from urllib.parse import urlsplit

from manifests.naming import Object
from manifests.objects import objects

CONFIGURATIONS = "webhook/configurations.yaml"
POLICY_CONFIGURATIONS = "policy/configurations.yaml"


def webhooks(*paths: str) -> dict[str, Object]:
    """Copies of the webhooks of these files by name, by default of all configurations."""
    configurations = objects(*(paths or (CONFIGURATIONS, POLICY_CONFIGURATIONS)))
    return {webhook["name"]: webhook for configuration in configurations for webhook in configuration["webhooks"]}


def wrong_path(webhook: Object) -> str:
    """The path of a stored webhook, if the manager does not serve the webhook at this path; "" if it does."""
    our_webhook, client = webhooks().get(str(webhook.get("name"))), webhook.get("clientConfig") or {}
    served_path = our_webhook["clientConfig"]["service"]["path"] if our_webhook else ""
    service = client.get("service")
    try:
        path = str(service.get("path") or "/") if service else urlsplit(str(client.get("url") or "")).path
    except ValueError:  # no URL at all
        return ""
    return "" if path.endswith(served_path) else path


def is_about_pods(webhook: Object) -> bool:
    """Whether one of our webhooks is called for pods."""
    return bool(webhook["rules"][0]["resources"] == ["pods"])


def webhook_configurations(
    *, url_base: str | None = None, ca_bundle: bytes | None = None, pods: bool = True
) -> list[Object]:
    """The mutating and the validating configuration, with or without the webhooks of `pods`.

    `url_base` (`https://127.0.0.1:9443`) is for a manager that runs outside the cluster; None means the Service.
    `ca_bundle` is the PEM of the CA that signed the serving certificate. With None, the manager writes and owns the
    field, so that applying the configuration again does not remove it.
    """
    configurations = _with_client(objects(CONFIGURATIONS), url_base, ca_bundle)
    for configuration in configurations:
        configuration["webhooks"] = [each for each in configuration["webhooks"] if pods or not is_about_pods(each)]
    return configurations


def policy_webhook_configurations(*, url_base: str | None = None) -> list[Object]:
    """Webhook configurations for JobSetPolicies and exceptions.

    Their mutating webhooks change nothing. They explain faults that the schema would refuse without an explanation.
    """
    return _with_client(objects(POLICY_CONFIGURATIONS), url_base, None)


def _with_client(configurations: list[Object], url_base: str | None, ca_bundle: bytes | None) -> list[Object]:
    """The configurations with the address and the CA of the webhook server."""
    for webhook in (webhook for configuration in configurations for webhook in configuration["webhooks"]):
        client = webhook["clientConfig"]
        if url_base is not None:
            client["url"] = url_base.rstrip("/") + client.pop("service")["path"]
        if ca_bundle is not None:
            client["caBundle"] = base64.b64encode(ca_bundle).decode()
    return configurations

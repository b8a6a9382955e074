"""EndpointSlices, as the API server has them of a Service."""

from typing import Any

WEBHOOKS = "jobset-webhook-service"


def endpoints(*ready: bool | None, of: str = WEBHOOKS) -> dict[str, Any]:
    """One EndpointSlice with an endpoint for each of `ready`; None: not said."""
    metadata = {"name": f"{of}-x", "namespace": "jobset-system", "labels": {"kubernetes.io/service-name": of}}
    listed = [{"addresses": ["10.0.0.1"], "conditions": {} if each is None else {"ready": each}} for each in ready]
    return {"kind": "EndpointSlice", "metadata": metadata, "endpoints": listed or None}

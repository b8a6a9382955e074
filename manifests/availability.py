"""What keeps admission answering while nodes are drained and versions roll out, and who may reach the pods.

docs/high-availability.md says for each what it is for.
"""

from typing import Any

from manifests.naming import DEPLOYMENT, POD_LABELS, Object, obj

REPLICAS = 2
"""Each serves admission; one of them holds the lease and reconciles."""

ENDPOINT_REMOVAL_SECONDS = 5
"""Until every node and API server knows that a pod is leaving. The pod goes on as before for that long."""

GRACE_SECONDS = 20
"""For the pod's end: the seconds above, then at most 9 s of the manager's own stop (`app.manager.supervisor`)."""

ROLLOUT: Object = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
"""A new replica is ready before an old one goes."""

# A sleep of the kubelet: the image has no shell. Kubernetes 1.30 and later know it.
LIFECYCLE: Object = {"preStop": {"sleep": {"seconds": ENDPOINT_REMOVAL_SECONDS}}}

_WHO_MAY_CONNECT = (
    "Webhooks: everybody, because API servers run outside the pod network and cannot be selected. "
    "Metrics: pods of the cluster; the manager checks their token. "
    "Probes: only the kubelet of the pod's node, which no policy keeps out."
)


def _spread(topology: str) -> Object:
    return {
        "labelSelector": {"matchLabels": dict(POD_LABELS)},
        # Only pods of one version are counted, so that those of the last version do not move the new ones.
        "matchLabelKeys": ["pod-template-hash"],
        "maxSkew": 1,
        "topologyKey": topology,
        "whenUnsatisfiable": "ScheduleAnyway",
    }


def topology_spread() -> list[Object]:
    """One replica on each node and in each zone, if there is room; a cluster of one node takes both."""
    return [_spread("kubernetes.io/hostname"), _spread("topology.kubernetes.io/zone")]


def disruption_budget() -> Object:
    """At most one replica is evicted at a time. One that is not ready never blocks the drain of its node."""
    spec: dict[str, Any] = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": dict(POD_LABELS)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return obj("policy/v1", "PodDisruptionBudget", DEPLOYMENT, spec=spec)


def network_policy() -> Object:
    """Who may connect to the pods. What they may connect to is open: the address of the API server is not known."""
    ingress = [
        {"ports": [{"port": "webhook-server", "protocol": "TCP"}]},
        {"from": [{"namespaceSelector": {}}], "ports": [{"port": "https", "protocol": "TCP"}]},
    ]
    spec = {"podSelector": {"matchLabels": dict(POD_LABELS)}, "policyTypes": ["Ingress"], "ingress": ingress}
    policy = obj("networking.k8s.io/v1", "NetworkPolicy", DEPLOYMENT, spec=spec)
    policy["metadata"]["annotations"] = {"kubernetes.io/description": _WHO_MAY_CONNECT}
    return policy

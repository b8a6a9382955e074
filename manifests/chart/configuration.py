"""The field names of the manager's configuration for the schema of the chart's values, so that Helm refuses others."""

from api.features import GATES, STAGES
from manifests.naming import Object

SECTIONS = {
    "childDryRun": ("budget", "enable", "lookUp"),
    "clientConnection": ("burst", "qps"),
    "exclusivePlacement": ("terms",),
    "health": ("healthProbeBindAddress", "livenessEndpointName", "readinessEndpointName"),
    "internalCertManagement": ("enable", "keyAlgorithm", "webhookSecretName", "webhookServiceName"),
    "leaderElection": (
        "leaderElect",
        "leaseDuration",
        "renewDeadline",
        "resourceLock",
        "resourceName",
        "resourceNamespace",
        "retryPeriod",
    ),
    "limits": ("jobsPerSet", "podsPerSet"),
    "metrics": ("bindAddress", "certDir"),
    "nodeFailure": ("taints",),
    "policies": ("auditInterval", "queueControllers", "reports", "statusInterval"),
    "scheduling": ("whenUnavailable",),
    "suspend": ("createJobs",),
    "tls": ("cipherSuites", "clientCAFile", "minVersion"),
    "webhook": ("certDir", "host", "port", "workers"),
}
"""The fields of each section. The manager checks the values of the fields when it starts."""


def feature_gates() -> Object:
    """A schema that accepts only known feature gates."""
    return _closed_object({name: {"type": "boolean"} for name in (*sorted(GATES), *sorted(STAGES))})


def section(name: str) -> Object:
    """A schema that accepts only the known fields of the section."""
    return _closed_object({field: {} for field in SECTIONS[name]})


def configuration() -> Object:
    """A schema that accepts only known sections with known fields."""
    properties = {"apiVersion": {}, "kind": {}, "featureGates": feature_gates()}
    return _closed_object(properties | {name: section(name) for name in SECTIONS})


def _closed_object(properties: Object) -> Object:
    return {"type": "object", "additionalProperties": False, "properties": properties}

"""Names and URL paths of API resources. Pure."""

import re
from dataclasses import dataclass

_SEGMENT = re.compile(r"(?!\.{1,2}$)[^/?#%\s]+")
"""A name that is one segment of a path. All objects have such names, but users can refer to an object by any text."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One API resource: its group, version and names. `group` is "" for the core group."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of the collection, of one object or of its subresource.

        `namespace` None means all namespaces (list and watch only); a cluster-scoped resource ignores `namespace`.
        Raises `ValueError` for a name that would lead to another path.
        """
        for each in (namespace, name):
            if each and not _SEGMENT.fullmatch(each):
                raise ValueError(f"{self.plural}: {each!r} is not the name of an object")
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        elif self.namespaced and name:
            raise ValueError(f"{self.plural} {name!r}: a namespace is needed to address one object")
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _admission(kind: str, plural: str) -> Resource:
    return Resource("admissionregistration.k8s.io", "v1", kind, plural, namespaced=False)


NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
PODS = Resource("", "v1", "Pod", "pods")
SERVICES = Resource("", "v1", "Service", "services")
SECRETS = Resource("", "v1", "Secret", "secrets")
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")
RESOURCE_QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas")
NODES = Resource("", "v1", "Node", "nodes", namespaced=False)
JOBS = Resource("batch", "v1", "Job", "jobs")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", namespaced=False)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
WORKLOADS = Resource("scheduling.k8s.io", "v1beta1", "Workload", "workloads")
KUEUE_WORKLOADS = Resource("kueue.x-k8s.io", "v1beta1", "Workload", "workloads")
POD_GROUPS = Resource("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups")
COMPOSITE_POD_GROUPS = Resource("scheduling.k8s.io", "v1alpha3", "CompositePodGroup", "compositepodgroups")
EVENTS = Resource("events.k8s.io", "v1", "Event", "events")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases")
CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
VALIDATING_ADMISSION_POLICIES = _admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies")
VALIDATING_ADMISSION_POLICY_BINDINGS = _admission(
    "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"
)
MUTATING_ADMISSION_POLICIES = _admission("MutatingAdmissionPolicy", "mutatingadmissionpolicies")
MUTATING_ADMISSION_POLICY_BINDINGS = _admission("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings")
MUTATING_WEBHOOK_CONFIGURATIONS = _admission("MutatingWebhookConfiguration", "mutatingwebhookconfigurations")
VALIDATING_WEBHOOK_CONFIGURATIONS = _admission("ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
RESOURCE_CLAIM_TEMPLATES = Resource("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates")

"""The fields of Job templates and claim templates that admission reads, as typed records."""

from typing import Any

import msgspec

from kube.model.jsontree import dig
from kube.model.meta import JSON, Base


class NamedItem(Base, frozen=True, kw_only=True):
    """An item of a list that is known by its name, such as a mount of a volume."""

    name: str = ""


class Volume(NamedItem, frozen=True, kw_only=True):
    """A volume of a pod."""

    empty_dir: Any = None
    downward_api: Any = msgspec.field(name="downwardAPI", default=None)
    projected: Any = None


class TemplateMetadata(Base, frozen=True, kw_only=True):
    """Metadata of a template, the fields that admission reads."""

    annotations: dict[str, str] = {}
    labels: JSON = {}


class ClaimMeta(Base, frozen=True, kw_only=True):
    """Metadata of a volume claim template."""

    name: str = ""
    namespace: str = ""


class Port(Base, frozen=True, kw_only=True):
    """A port of a container."""

    container_port: Any = None


class Variable(Base, frozen=True, kw_only=True):
    """A variable of a container's `env`."""

    name: str = ""
    value: Any = None
    value_from: Any = None

    @property
    def field(self) -> str:
        """The field of the pod from which the variable gets its value; empty if it comes from none."""
        path = dig(self.value_from, "fieldRef", "fieldPath")
        return path if isinstance(path, str) else ""


class Container(Base, frozen=True, kw_only=True):
    """A container, the fields that admission reads."""

    name: str = ""
    image: Any = ""
    command: tuple[Any, ...] = ()
    args: tuple[Any, ...] = ()
    env: tuple[Variable, ...] = ()
    env_from: Any = None
    ports: tuple[Port, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[Any, ...] = ()
    volume_mounts: tuple[NamedItem, ...] = ()


class PodSpec(Base, frozen=True, kw_only=True):
    """A pod, the fields that admission reads."""

    automount_service_account_token: bool | None = None
    dns_config: Any = None
    dns_policy: Any = None
    host_network: Any = None
    restart_policy: str = ""
    service_account_name: Any = None
    set_hostname_as_fqdn: Any = msgspec.field(name="setHostnameAsFQDN", default=None)
    subdomain: Any = None
    volumes: tuple[Volume, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Containers, then init containers."""
        return (*self.containers, *self.init_containers)


class PodTemplate(Base, frozen=True, kw_only=True):
    """`template.spec.template`."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: PodSpec = PodSpec()


class JobSpec(Base, frozen=True, kw_only=True):
    """The fields of batch/v1 JobSpec that admission reads."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    pod_replacement_policy: str | None = None
    pod_failure_policy: JSON | None = None
    managed_by: str | None = None
    template: PodTemplate = PodTemplate()

    @property
    def never_completes(self) -> bool:
        """Whether the Job asks for completions and allows no pod to run."""
        return self.parallelism == 0 and self.completions != 0


class JobTemplate(Base, frozen=True, kw_only=True):
    """`replicatedJobs[].template`."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: JobSpec = JobSpec()


class ClaimTemplate(Base, frozen=True, kw_only=True):
    """`volumeClaimPolicies[].templates[]`."""

    metadata: ClaimMeta = ClaimMeta()

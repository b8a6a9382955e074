"""Settings of the manager: the configuration file and the flags that override it.

See docs/reference/manager.md#flags and docs/reference/manager.md#configuration.

Reading is strict: an unknown field, a duplicate key or a wrong kind ends the start with every fault named, because a
setting that is silently ignored is worse than a manager that does not start.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from api.features import FeatureGateError, FeatureGates
from api.validation import dns1035_label, dns1123_subdomain
from certs.tls import check_options
from webhooks.jobset.subject import DEFAULT_LIMITS

API_VERSION = "config.jobset.x-k8s.io/v1alpha1"
KIND = "Configuration"
MAX_BUDGET = 8.0
"""Most seconds of a child dry run."""
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}


class SettingsError(Exception):
    """The configuration cannot be used; the text says where and why, one fault a line."""


def parse_duration(text: Any) -> float:
    """Seconds of a Go duration such as `15s` or `1m30s`."""
    if not isinstance(text, str) or not text:
        raise ValueError("must be a duration such as 15s or 1m30s")
    if text == "0":
        return 0
    parts = _DURATION.findall(text)
    if "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration: write it like 15s or 1m30s")
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))


Duration = Annotated[float, BeforeValidator(parse_duration)]


class _Section(BaseModel):
    """A part of the file: camelCase names, no unknown fields, no silent conversions."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, frozen=True)

    @field_validator("*")
    @classmethod
    def _default_when_empty(cls, value: Any, info: ValidationInfo) -> Any:
        """Empty texts and zero durations mean the default, as in every Kubernetes component configuration."""
        empty = value == "" or (isinstance(value, float) and value == 0)
        return cls.model_fields[str(info.field_name)].default if empty else value


class WebhookSettings(_Section):
    """The admission server."""

    port: int = Field(9443, ge=0, le=65535)
    """TCP port; 0 = any free one."""
    host: str = ""
    """Address to listen on; empty = all. A name or address given here is put into our own certificate."""
    cert_dir: str = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 (the path that manifests mount)
    """Folder with tls.crt and tls.key."""
    workers: int = Field(1, ge=0, le=64)
    """Processes that serve admission on the port, beside the one with the lease; 0: that one serves it, too. An
    extension: the Go manager's file has no such field. Each has a client of its own, so that the limits of
    clientConnection hold for each."""


class LeaderElectionSettings(_Section):
    """Who runs the reconcile loop. Zero durations and empty names mean the default."""

    leader_elect: bool = True
    lease_duration: Duration = 15.0
    """Seconds after which others may take a lease that is not renewed."""
    renew_deadline: Duration = 10.0
    """Seconds after which the holder gives up when it cannot renew."""
    retry_period: Duration = 2.0
    """Seconds between tries."""
    resource_lock: Literal["leases", ""] = "leases"
    resource_name: str = "6d4f6a47.jobset.x-k8s.io"
    resource_namespace: str = ""
    """Namespace of the lease; empty = the manager's own."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lease_duration > self.renew_deadline > self.retry_period:
            raise ValueError("leaseDuration must be longer than renewDeadline, and that longer than retryPeriod")
        return self


class MetricsSettings(_Section):
    """The metrics endpoint."""

    bind_address: str = ":8443"
    """`host:port`; `0` = no metrics."""
    cert_dir: str = "/tmp/k8s-metrics-server/serving-certs"  # noqa: S108 (the path that manifests mount)


class HealthSettings(_Section):
    """The probes."""

    health_probe_bind_address: str = ":8081"
    """`host:port`; `0` = no probes."""
    readiness_endpoint_name: str = "/readyz"
    liveness_endpoint_name: str = "/healthz"


class TLSSettings(_Section):
    """TLS of the webhook and metrics servers."""

    min_version: str = ""
    cipher_suites: tuple[str, ...] = ()

    @field_validator("cipher_suites", mode="before")
    @classmethod
    def _tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _known(self) -> Self:
        check_options(self.min_version, self.cipher_suites)
        return self


class CertificateSettings(_Section):
    """Whether this program makes its own certificates."""

    enable: bool = True
    webhook_service_name: str = "jobset-webhook-service"
    webhook_secret_name: str = "jobset-webhook-server-cert"  # noqa: S105 (the name of a Secret, not a secret)

    @model_validator(mode="after")
    def _names(self) -> Self:
        if not self.enable:
            return self
        if dns1035_label(self.webhook_service_name):
            raise ValueError(f"webhookServiceName: {self.webhook_service_name!r} is not a DNS-1035 label")
        if dns1123_subdomain(self.webhook_secret_name):
            raise ValueError(f"webhookSecretName: {self.webhook_secret_name!r} is not a DNS-1123 subdomain")
        return self


class ClientSettings(_Section):
    """Rate of requests to the API server: a token bucket."""

    qps: float = Field(500, gt=0)
    burst: int = Field(500, gt=0)

    @field_validator("qps", mode="before")
    @classmethod
    def _whole_number(cls, value: Any) -> Any:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


class DryRunSettings(_Section):
    """The child dry run: whether admission asks the API server, with dryRun=All, if it would take a JobSet's children.

    An extension: the Go manager's file has no such section. A zero budget means the default.
    """

    enable: bool = True
    budget: Duration = 3.0
    """Seconds for all questions about one JobSet, those about existing volume claims included."""

    @field_validator("budget")
    @classmethod
    def _in_time(cls, value: float) -> float:
        if value > MAX_BUDGET:
            raise ValueError(f"must be at most {MAX_BUDGET:g}s: the API server waits 10s for the whole admission")
        return value


class LimitSettings(_Section):
    """What one JobSet may have. An extension: the Go manager's file has no such section."""

    jobs_per_set: int = Field(DEFAULT_LIMITS.jobs, ge=1)
    pods_per_set: int = Field(DEFAULT_LIMITS.pods, ge=1)
    """Pods at once."""


class SuspendSettings(_Section):
    """What becomes of a JobSet while it is suspended. An extension: the Go manager's file has no such section."""

    create_jobs: Literal["Always", "OnResume", ""] = "Always"
    """Always: Jobs, Service and claims are created at once, the Jobs suspended. OnResume: nothing is created before the
    JobSet is resumed, so that a long queue costs the API server nothing."""


class PlacementSettings(_Section):
    """Exclusive placement. An extension: the Go manager's file has no such section."""

    terms: Literal["Auto", "LabelKeys", "Expressions", ""] = "Auto"
    """How leaders' anti-affinity is written: with matchLabelKeys (Kubernetes 1.33), written out, or by the server's
    version. All mean the same to the scheduler."""


class SchedulingSettings(_Section):
    """Gangs (`spec.scheduling`). An extension: the Go manager's file has no such section."""

    when_unavailable: Literal["Hold", "Ignore", ""] = "Hold"
    """What becomes of a JobSet that asks for groups which the API server does not serve. Hold: its Jobs wait, and the
    JobSet says for what. Ignore: they run without groups, and the JobSet says so."""


class Settings(_Section):
    """The whole configuration file."""

    api_version: str = API_VERSION
    kind: str = KIND
    webhook: WebhookSettings = WebhookSettings()
    leader_election: LeaderElectionSettings = LeaderElectionSettings()
    metrics: MetricsSettings = MetricsSettings()
    health: HealthSettings = HealthSettings()
    tls: TLSSettings = TLSSettings()
    internal_cert_management: CertificateSettings = CertificateSettings()
    client_connection: ClientSettings = ClientSettings()
    child_dry_run: DryRunSettings = DryRunSettings()
    limits: LimitSettings = LimitSettings()
    suspend: SuspendSettings = SuspendSettings()
    exclusive_placement: PlacementSettings = PlacementSettings()
    scheduling: SchedulingSettings = SchedulingSettings()
    feature_gates: dict[str, bool] = {}

    @field_validator("feature_gates")
    @classmethod
    def _known_gates(cls, value: dict[str, bool]) -> dict[str, bool]:
        try:
            FeatureGates(value)
        except FeatureGateError as error:
            raise ValueError(str(error)) from error
        return value

    def override(self, section: str, **values: Any) -> Self:
        """A copy with fields of one section replaced by the flags that were given (None = not given)."""
        given = {name: value for name, value in values.items() if value is not None}
        part: BaseModel = getattr(self, section)
        try:
            checked = type(part).model_validate({to_camel(name): value for name, value in given.items()})
        except ValidationError as error:
            raise SettingsError(
                "\n".join(f"flag for {to_camel(section)}.{fault}" for fault in _faults(error))
            ) from error
        update = {name: getattr(checked, name) for name in given}
        return self.model_copy(update={section: part.model_copy(update=update)})


class _StrictLoader(yaml.SafeLoader):
    """YAML without duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise SettingsError(f"line {key.start_mark.line + 1}: key {key.value!r} is given twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load(path: str) -> Settings:
    """Read the file; an empty path gives the defaults."""
    if not path:
        return Settings()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the configuration file {path}: {error}") from error
    try:
        return parse(text)
    except SettingsError as error:
        raise SettingsError(f"configuration file {path} cannot be used:\n{error}") from error


def parse(text: str) -> Settings:
    """Read the text of a configuration file."""
    try:
        data = yaml.load(text, _StrictLoader)  # noqa: S506 (the loader is a SafeLoader)
    except yaml.YAMLError as error:
        raise SettingsError(f"not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(data, dict):
        raise SettingsError("must be a mapping with apiVersion, kind and settings")
    for field, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if data.get(field) != wanted:
            raise SettingsError(f"{field}: must be {wanted}, is {data.get(field)!r}")
    try:
        return Settings.model_validate(_without_nulls(data))
    except ValidationError as error:
        raise SettingsError("\n".join(_faults(error))) from error


def _without_nulls(value: Any) -> Any:
    """A null is an absent field, as in every Kubernetes object."""
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return value


def _faults(error: ValidationError) -> Iterator[str]:
    for fault in error.errors():
        where = ".".join(str(part) for part in fault["loc"])
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = "unknown field"
        yield f"{where}: {message}"

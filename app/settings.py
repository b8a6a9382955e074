"""Settings of the manager: the fields of the configuration file, and the flags that override them.

See docs/reference/configuration.md, which is generated from this file: the text below a field, its limits and its
example are what users read. `app.settings_file` reads the file.

The manager does not start with an unknown field: a setting that is silently ignored would be worse. It reports
all faults at once.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from api import keys
from api.features import FeatureGateError, FeatureGates, gate_faults
from app.settings_faults import GateFaultsError, fault_lines, initial_fault
from app.settings_types import BindAddress, Duration, Host, Texts, as_tuple
from certs.tls import check_options
from kube.model.durations import duration_text
from kube.model.validation import dns1035_label, dns1123_label, dns1123_subdomain
from kube.resources import CONFIG_MAPS, SECRETS
from webhooks.jobset.subject import DEFAULT_LIMITS

API_VERSION = "config.jobset.x-k8s.io/v1alpha1"
KIND = "Configuration"
MAX_DRY_RUN_SECONDS = 8.0  # seconds of a child dry run
MIN_POLICY_SECONDS = 1.0  # seconds between two rounds of a policy's status, or of an audit


class SettingsError(Exception):
    """The configuration cannot be used. The text has a line for each fault: where it is, and what is wrong."""


LookUp = Literal["ConfigMaps", "Secrets"]
LOOK_UPS = {"ConfigMaps": CONFIG_MAPS, "Secrets": SECRETS}
"""The resource of each value of childDryRun.lookUp."""


class _Section(BaseModel):
    """A section of the file, with camelCase names, without unknown fields and without silent conversions."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, frozen=True)

    @field_validator("*")
    @classmethod
    def _default_when_empty(cls, value: Any, info: ValidationInfo) -> Any:
        """Empty texts and zero durations mean the default, as in every Kubernetes component configuration."""
        is_empty = value == "" or (isinstance(value, float) and value == 0)
        return cls.model_fields[str(info.field_name)].default if is_empty else value


class WebhookSettings(_Section):
    """The admission server."""

    port: int = Field(9443, ge=0, le=65535, examples=[9443])
    """TCP port; 0 = any free one."""
    host: Host = Field("", examples=["10.0.0.7"])
    """Address to listen on; empty = all. A name or address given here is put into our own certificate."""
    cert_dir: str = Field("/tmp/k8s-webhook-server/serving-certs", examples=["/certs/webhook"])  # noqa: S108 (mounted)
    """Folder with tls.crt and tls.key; read when internalCertManagement.enable is false. Its files are read again
    whenever they change."""
    workers: int = Field(0, ge=0, le=64, examples=[2])
    """Processes that serve admission on the port, beside the process that reconciles; 0: that process serves it, too.
    An extension: the Go manager's file has no such field. The limits of clientConnection hold for each of these
    processes by itself."""


class LeaderElectionSettings(_Section):
    """Who runs the reconcile loop. Zero durations and empty names mean the default."""

    leader_elect: bool = Field(True, examples=[True])
    """Whether only the replica that holds the lease runs the reconcile loop."""
    lease_duration: Duration = Field(15.0, examples=["15s"])
    """Time after which others may take a lease that is not renewed. Longer than renewDeadline."""
    renew_deadline: Duration = Field(10.0, examples=["10s"])
    """Time after which the holder gives up when it cannot renew. Longer than 1.2 times retryPeriod."""
    retry_period: Duration = Field(2.0, examples=["2s"])
    """Time between tries."""
    resource_lock: Literal["leases", ""] = Field("leases", examples=["leases"])
    """Kind of the object that is held: a Lease."""
    resource_name: str = Field(keys.LEASE, examples=[keys.LEASE])
    """Name of the lease, a DNS-1123 subdomain. Replicas with one name take turns; the Go manager has the same."""
    resource_namespace: str = Field("", examples=["jobset-system"])
    """Namespace of the lease, which has to exist; empty = that of the manager's pod, else jobset-system."""

    @field_validator("resource_name")
    @classmethod
    def _check_subdomain(cls, value: str) -> str:
        if dns1123_subdomain(value):
            raise ValueError(f"{value!r} is not a DNS-1123 subdomain")
        return value

    @field_validator("resource_namespace")
    @classmethod
    def _check_label(cls, value: str) -> str:
        if value and dns1123_label(value):
            raise ValueError(f"{value!r} is not a DNS-1123 label")
        return value

    @model_validator(mode="wrap")
    @classmethod
    def _check_order(cls, values: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        """Check the order of the durations, also if another field is wrong."""
        faults: list[Any] = []
        try:
            section = read(values)
        except ValidationError as error:
            faults = [initial_fault(fault) for fault in error.errors()]
            names = {"leaseDuration", "renewDeadline", "retryPeriod"}
            if not isinstance(values, dict) or names & {fault["loc"][0] for fault in faults if fault["loc"]}:
                raise
            section = read({name: values[name] for name in names & values.keys()})
        durations = section.lease_duration, section.renew_deadline, section.retry_period
        if not durations[0] > durations[1] > 1.2 * durations[2]:
            lease, renew, retry = map(duration_text, durations)
            cause = ValueError(
                f"leaseDuration ({lease}) must be longer than renewDeadline ({renew}), and that longer than"
                f" 1.2 times retryPeriod ({retry})"
            )
            faults.append({"type": "value_error", "loc": (), "input": values, "ctx": {"error": cause}})
        if faults:
            raise ValidationError.from_exception_data(cls.__name__, faults)
        return section


class MetricsSettings(_Section):
    """The metrics endpoint."""

    bind_address: BindAddress = Field(":8443", examples=["127.0.0.1:8443"])
    """`host:port` or `:port`; `0` = no metrics."""
    cert_dir: str = Field("/tmp/k8s-metrics-server/serving-certs", examples=["/certs/metrics"])  # noqa: S108 (mounted)
    """Folder with tls.crt and tls.key; without a usable certificate, a self-signed one for localhost is served."""


class HealthSettings(_Section):
    """The probes."""

    health_probe_bind_address: BindAddress = Field(":8081", examples=[":8081"])
    """`host:port` or `:port`; `0` = no probes."""
    readiness_endpoint_name: str = Field("/readyz", examples=["/readyz"])
    """Path of the readiness probe."""
    liveness_endpoint_name: str = Field("/healthz", examples=["/healthz"])
    """Path of the liveness probe, another than that of the readiness probe."""

    @model_validator(mode="after")
    def _check_paths(self) -> Self:
        if self.readiness_endpoint_name.strip("/") == self.liveness_endpoint_name.strip("/"):
            raise ValueError(
                f"readinessEndpointName and livenessEndpointName are both {self.readiness_endpoint_name}: give each a"
                " path of its own, such as /readyz and /healthz"
            )
        return self


class TLSSettings(_Section):
    """TLS of the webhook and metrics servers (docs/reference/manager.md#tls-options)."""

    min_version: str = Field("", examples=["VersionTLS12"])
    """Oldest version that is offered, `VersionTLS12` or `VersionTLS13`; empty = `VersionTLS12`."""
    cipher_suites: Texts = Field((), examples=[["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]])
    """Go's names of the suites of TLS 1.2; empty = OpenSSL's. Not together with `VersionTLS13`."""
    client_ca_file: str = Field("", alias="clientCAFile", examples=["/certs/api-server-ca.crt"])
    """PEM file with the CA of the certificate that the API server has to show to the webhooks; empty = whoever calls is
    answered (docs/admission-security.md#only-the-api-server-may-call-the-webhooks). The file is read again whenever it
    changes.
    An extension: the Go manager's file has no such field."""

    @field_validator("min_version")
    @classmethod
    def _check_version(cls, value: str) -> str:
        check_options(value, ())
        return value

    @field_validator("cipher_suites")
    @classmethod
    def _check_suites(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        check_options("VersionTLS13" if info.data.get("min_version") == "VersionTLS13" else "", value)
        return value


class CertificateSettings(_Section):
    """Whether this program makes its own certificates (docs/reference/manager.md#certificates)."""

    enable: bool = Field(True, examples=[True])
    """False: the certificate comes from webhook.certDir, where cert-manager or somebody else puts it."""
    webhook_service_name: str = Field("jobset-webhook-service", examples=["jobset-webhook-service"])
    """Service that the certificate is for, a DNS-1035 label."""
    webhook_secret_name: str = Field("jobset-webhook-server-cert", examples=["jobset-webhook-server-cert"])
    """Secret that keeps the certificate, a DNS-1123 subdomain. The manager's Role names it, too
    (docs/manager-rights.md)."""
    key_algorithm: Literal["ECDSA", "RSA", ""] = Field("ECDSA", examples=["RSA"])
    """Kind of new keys: `ECDSA` (P-256) or `RSA` (3,072 bits). Keys in the Secret stay until they are renewed
    (docs/certificates.md#kind-of-keys). An extension: the Go manager's file has no such field."""

    @field_validator("webhook_service_name")
    @classmethod
    def _check_label(cls, value: str, info: ValidationInfo) -> str:
        if info.data.get("enable") and dns1035_label(value):
            raise ValueError(f"{value!r} is not a DNS-1035 label")
        return value

    @field_validator("webhook_secret_name")
    @classmethod
    def _check_subdomain(cls, value: str, info: ValidationInfo) -> str:
        if info.data.get("enable") and dns1123_subdomain(value):
            raise ValueError(f"{value!r} is not a DNS-1123 subdomain")
        return value


class ClientSettings(_Section):
    """Rate of requests to the API server: a token bucket."""

    qps: float = Field(500, gt=0, examples=[500])
    """Requests a second, of each process."""
    burst: int = Field(500, gt=0, examples=[500])
    """Requests at once, before qps limits them."""

    @field_validator("qps", mode="before")
    @classmethod
    def _convert_integer(cls, value: Any) -> Any:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


class DryRunSettings(_Section):
    """The child dry run: admission asks the API server, with dryRun=All, if it would take a JobSet's children.

    See docs/errors.md#what-is-asked-of-the-cluster. An extension: the Go manager's file has no such section.
    """

    enable: bool = Field(True, examples=[True])
    """False: only existing volume claims are read."""
    budget: Duration = Field(3.0, examples=["3s"])
    """Time for all questions about one JobSet, those about existing volume claims included; at most 8s."""
    look_up: Annotated[tuple[LookUp, ...], as_tuple] = Field((), examples=[["ConfigMaps", "Secrets"]])
    """Objects that are looked up in the namespace of a new JobSet, too, so that admission warns if its pods name one
    that does not exist. Each needs a right of its own (docs/admission-security.md#configmaps-and-secrets)."""

    @field_validator("budget")
    @classmethod
    def _check_budget(cls, value: float) -> float:
        if value > MAX_DRY_RUN_SECONDS:
            limit, actual = duration_text(MAX_DRY_RUN_SECONDS), duration_text(value)
            raise ValueError(f"must be at most {limit}, is {actual}: the API server waits 10s for the whole admission")
        return value


class LimitSettings(_Section):
    """What one JobSet may have (docs/reference/validation.md#size).

    An extension: the Go manager's file has no such section.
    """

    jobs_per_set: int = Field(DEFAULT_LIMITS.jobs, ge=1, examples=[10_000])
    """Jobs of all ReplicatedJobs."""
    pods_per_set: int = Field(DEFAULT_LIMITS.pods, ge=1, examples=[100_000])
    """Pods at once."""


class SuspendSettings(_Section):
    """What becomes of a JobSet while it is suspended (docs/reference/lifecycle.md#suspend-and-resume).

    An extension: the Go manager's file has no such section.
    """

    create_jobs: Literal["Always", "OnResume", ""] = Field("Always", examples=["OnResume"])
    """Always: Jobs, Service and claims are created at once, the Jobs suspended. OnResume: nothing is created before the
    JobSet is resumed, so that a long queue costs the API server nothing."""


class PlacementSettings(_Section):
    """Exclusive placement. An extension: the Go manager's file has no such section."""

    terms: Literal["Auto", "LabelKeys", "Expressions", ""] = Field("Auto", examples=["Expressions"])
    """How leaders' anti-affinity is written (docs/reference/pod-webhooks.md#what-a-pod-gets). LabelKeys: with
    matchLabelKeys (Kubernetes 1.33). Expressions: written out. Auto: by the server's version. All mean the same to the
    scheduler."""


class SchedulingSettings(_Section):
    """Gangs (`spec.scheduling`). An extension: the Go manager's file has no such section."""

    when_unavailable: Literal["Hold", "Ignore", ""] = Field("Hold", examples=["Ignore"])
    """What becomes of a JobSet that asks for groups which the API server does not serve. Hold: its Jobs wait, and the
    JobSet says for what. Ignore: they run without groups, and the JobSet says so."""


class PolicySettings(_Section):
    """JobSetPolicies (docs/policy/admission.md). An extension: the Go manager's file has no such section."""

    queue_controllers: Texts = Field(("system:serviceaccount:kueue-system:kueue-controller-manager",), examples=[[]])
    """User names of controllers of queues. Policies do not judge what these change in a JobSet that exists."""
    status_interval: Duration = Field(30.0, examples=["30s"])
    """Time between two writes of counts into the status of one policy, by each replica; at least 1s
    (docs/policy/status.md). Nothing is written while nothing is counted."""
    audit_interval: Duration = Field(600.0, examples=["1h"])
    """Time from the begin of one audit of the stored JobSets to the begin of the next; at least 1s
    (docs/policy/audit.md)."""
    reports: bool = Field(False, examples=[True])
    """Whether each audit writes reports (docs/policy/audit.md#reports). They need rights of their own."""

    @field_validator("status_interval", "audit_interval")
    @classmethod
    def _check_interval(cls, value: float) -> float:
        if value < MIN_POLICY_SECONDS:
            raise ValueError(f"must be at least {duration_text(MIN_POLICY_SECONDS)}, is {duration_text(value)}")
        return value


class NodeFailureSettings(_Section):
    """Nodes that fail (`failurePolicy.nodeFailure`). An extension: the Go manager's file has no such section."""

    taints: Texts = Field((), examples=[["node.kubernetes.io/not-ready"]])
    """Keys of further taints by which a node counts as failed (docs/concepts/node-failure.md)."""


class Settings(_Section):
    """The whole configuration file."""

    api_version: str = Field(API_VERSION, examples=[API_VERSION])
    """Always this one."""
    kind: str = Field(KIND, examples=[KIND])
    """Always this one."""
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
    policies: PolicySettings = PolicySettings()
    node_failure: NodeFailureSettings = NodeFailureSettings()
    feature_gates: dict[str, bool] = Field({}, examples=[{"RestartJob": True, "AllBeta": True}])
    """Name of a feature gate, AllAlpha or AllBeta, to whether it is on (docs/reference/manager.md#feature-gates)."""

    @field_validator("feature_gates", mode="before")
    @classmethod
    def _check_gates(cls, value: Any) -> Any:
        if isinstance(value, dict) and (faults := list(gate_faults({str(name): on for name, on in value.items()}))):
            raise GateFaultsError(faults)
        return value

    @field_validator("feature_gates")
    @classmethod
    def _check_combination(cls, value: dict[str, bool]) -> dict[str, bool]:
        try:
            FeatureGates(value)
        except FeatureGateError as error:
            raise ValueError(str(error)) from error
        return value

    def override(self, section: str, **values: Any) -> Self:
        """A copy with fields of one section replaced by `values` of flags; None means that the flag is not given."""
        set_values = {name: value for name, value in values.items() if value is not None}
        current: BaseModel = getattr(self, section)
        try:
            checked = type(current).model_validate({to_camel(name): value for name, value in set_values.items()})
        except ValidationError as error:
            raise SettingsError(
                "\n".join(f"flag for {to_camel(section)}.{fault}" for fault in fault_lines(type(current), error))
            ) from error
        update = {name: getattr(checked, name) for name in set_values}
        return self.model_copy(update={section: current.model_copy(update=update)})

"""Declares the fields of the manager's configuration file. Flags can override some of them (`Settings.override`).

`app.settings_file` reads the file. docs/reference/configuration.md is generated from this module: it has the text below
each field, the field's limits and its example.

The manager does not start if a field is unknown or a value is invalid. It then reports all faults at once.
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
from app.settings_faults import GateFaultsError, fault_lines, raisable_fault
from app.settings_types import BindAddress, Duration, Host, Texts, as_tuple
from certs.tls import check_options
from kube.model.durations import duration_text
from kube.model.validation import dns1035_label, dns1123_label, dns1123_subdomain
from kube.resources import CONFIG_MAPS, SECRETS
from webhooks.jobset.subject import DEFAULT_LIMITS

API_VERSION = "config.jobset.x-k8s.io/v1alpha1"
KIND = "Configuration"
MAX_DRY_RUN_SECONDS = 8.0  # upper limit of childDryRun.budget
MIN_POLICY_SECONDS = 1.0  # lower limit of the intervals in policies


class SettingsError(Exception):
    """The configuration cannot be used. The message has a line for each fault, with its place and what is wrong."""


LookUp = Literal["ConfigMaps", "Secrets"]
LOOK_UPS = {"ConfigMaps": CONFIG_MAPS, "Secrets": SECRETS}
"""The Kubernetes resource that each value of `childDryRun.lookUp` stands for."""


class _Section(BaseModel):
    """A section of the file. Its fields have camelCase names; unknown fields and values of a wrong type are errors."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, frozen=True)

    @field_validator("*")
    @classmethod
    def _default_when_empty(cls, value: Any, info: ValidationInfo) -> Any:
        """Replace an empty string or a zero duration by the default, as Kubernetes components do."""
        is_empty = value == "" or (isinstance(value, float) and value == 0)
        return cls.model_fields[str(info.field_name)].default if is_empty else value


class WebhookSettings(_Section):
    """The admission server."""

    port: int = Field(9443, ge=0, le=65535, examples=[9443])
    """TCP port; 0 = any free one."""
    host: Host = Field("", examples=["10.0.0.7"])
    """Name or address to listen on; empty = all addresses. A certificate that the manager makes itself includes it."""
    cert_dir: str = Field("/tmp/k8s-webhook-server/serving-certs", examples=["/certs/webhook"])  # noqa: S108 (mounted)
    """Folder with tls.crt and tls.key, which the manager uses if internalCertManagement.enable is false. It reads the
    files again whenever they change."""
    workers: int = Field(0, ge=0, le=64, examples=[2])
    """Number of additional processes that serve admission on the port; 0 = the process that reconciles JobSets also
    serves admission. The limits of clientConnection apply to each process separately. An extension: the Go manager's
    file has no such field."""


class LeaderElectionSettings(_Section):
    """Which replica of the manager reconciles JobSets. Zero durations and empty names mean the default."""

    leader_elect: bool = Field(True, examples=[True])
    """Whether only the replica that holds the lease reconciles; false = every replica reconciles."""
    lease_duration: Duration = Field(15.0, examples=["15s"])
    """Time after which another replica may take a lease that is not renewed. Longer than renewDeadline."""
    renew_deadline: Duration = Field(10.0, examples=["10s"])
    """Time after which a replica that cannot renew its lease stops. Longer than 1.2 times retryPeriod."""
    retry_period: Duration = Field(2.0, examples=["2s"])
    """Time between two attempts to take or renew the lease."""
    resource_lock: Literal["leases", ""] = Field("leases", examples=["leases"])
    """Kind of the object that the replica holds: always a Lease."""
    resource_name: str = Field(keys.LEASE, examples=[keys.LEASE])
    """Name of the Lease, a DNS-1123 subdomain. Of the managers with the same name, one at a time reconciles."""
    resource_namespace: str = Field("", examples=["jobset-system"])
    """Existing namespace of the Lease; empty = the namespace of the manager's pod, or jobset-system outside a pod."""

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
    def _check_order(cls, values: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Validate the section, and compare its durations even if another field has a fault."""
        faults: list[Any] = []
        try:
            section = validate(values)
        except ValidationError as error:
            faults = [raisable_fault(fault) for fault in error.errors()]
            names = {"leaseDuration", "renewDeadline", "retryPeriod"}
            if not isinstance(values, dict) or names & {fault["loc"][0] for fault in faults if fault["loc"]}:
                raise
            section = validate({name: values[name] for name in names & values.keys()})
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
    """Folder with tls.crt and tls.key. If it has no usable certificate, a self-signed one for localhost is served."""


class HealthSettings(_Section):
    """The endpoints of the readiness and liveness probes."""

    health_probe_bind_address: BindAddress = Field(":8081", examples=[":8081"])
    """`host:port` or `:port`; `0` = no probes."""
    readiness_endpoint_name: str = Field("/readyz", examples=["/readyz"])
    """Path of the readiness probe."""
    liveness_endpoint_name: str = Field("/healthz", examples=["/healthz"])
    """Path of the liveness probe. It must differ from the path of the readiness probe."""

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
    """Oldest version of TLS that the servers accept, `VersionTLS12` or `VersionTLS13`; empty = `VersionTLS12`."""
    cipher_suites: Texts = Field((), examples=[["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]])
    """Cipher suites of TLS 1.2, by their names in Go; empty = the defaults of OpenSSL. Not together with
    `VersionTLS13`."""
    client_ca_file: str = Field("", alias="clientCAFile", examples=["/certs/api-server-ca.crt"])
    """PEM file with the CA of the client certificate that callers of the webhooks must have; empty = callers need no
    certificate (docs/admission-security.md#only-the-api-server-may-call-the-webhooks). The manager reads the file again
    whenever it changes. An extension: the Go manager's file has no such field."""

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
    """Whether the manager makes the certificate of the webhooks itself (docs/reference/manager.md#certificates)."""

    enable: bool = Field(True, examples=[True])
    """False = the manager reads the certificate from webhook.certDir, where for example cert-manager puts it."""
    webhook_service_name: str = Field("jobset-webhook-service", examples=["jobset-webhook-service"])
    """Name of the Service of the webhooks, for which the certificate is issued. A DNS-1035 label."""
    webhook_secret_name: str = Field("jobset-webhook-server-cert", examples=["jobset-webhook-server-cert"])
    """Name of the Secret that stores the certificate, a DNS-1123 subdomain. The manager's Role has to name this Secret
    (docs/manager-rights.md)."""
    key_algorithm: Literal["ECDSA", "RSA", ""] = Field("ECDSA", examples=["RSA"])
    """Kind of new private keys: `ECDSA` (P-256) or `RSA` (3,072 bits). A key in the Secret stays until it is renewed
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
    """Rate limit of requests to the API server, as a token bucket."""

    qps: float = Field(500, gt=0, examples=[500])
    """Requests per second that each process may send."""
    burst: int = Field(500, gt=0, examples=[500])
    """Requests that each process may send at once before `qps` limits them."""

    @field_validator("qps", mode="before")
    @classmethod
    def _convert_integer(cls, value: Any) -> Any:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


class DryRunSettings(_Section):
    """The child dry run: admission sends the objects that a JobSet would create to the API server, with dryRun=All.

    So it knows whether the API server would refuse them (docs/errors.md#what-is-asked-of-the-cluster). An extension:
    the Go manager's file has no such section.
    """

    enable: bool = Field(True, examples=[True])
    """Whether admission makes child dry runs; false = it only reads existing volume claims."""
    budget: Duration = Field(3.0, examples=["3s"])
    """Time for all requests about one JobSet, including the reads of volume claims; at most 8s."""
    look_up: Annotated[tuple[LookUp, ...], as_tuple] = Field((), examples=[["ConfigMaps", "Secrets"]])
    """Kinds of objects that admission also looks up in the namespace of a new JobSet. It warns if pods use a missing
    object. The manager needs a right for each kind (docs/admission-security.md#configmaps-and-secrets)."""

    @field_validator("budget")
    @classmethod
    def _check_budget(cls, value: float) -> float:
        if value > MAX_DRY_RUN_SECONDS:
            limit, actual = duration_text(MAX_DRY_RUN_SECONDS), duration_text(value)
            raise ValueError(f"must be at most {limit}, is {actual}: the API server waits 10s for the whole admission")
        return value


class LimitSettings(_Section):
    """How large one JobSet may be (docs/reference/validation.md#size).

    An extension: the Go manager's file has no such section.
    """

    jobs_per_set: int = Field(DEFAULT_LIMITS.jobs, ge=1, examples=[10_000])
    """Largest number of Jobs of all ReplicatedJobs together."""
    pods_per_set: int = Field(DEFAULT_LIMITS.pods, ge=1, examples=[100_000])
    """Largest number of pods that exist at the same time."""


class SuspendSettings(_Section):
    """What the manager creates for a suspended JobSet (docs/reference/lifecycle.md#suspend-and-resume).

    An extension: the Go manager's file has no such section.
    """

    create_jobs: Literal["Always", "OnResume", ""] = Field("Always", examples=["OnResume"])
    """Always = the Service, the volume claims and suspended Jobs. OnResume = nothing before the JobSet is resumed, so
    that a long queue of suspended JobSets does not load the API server."""


class PlacementSettings(_Section):
    """Exclusive placement. An extension: the Go manager's file has no such section."""

    terms: Literal["Auto", "LabelKeys", "Expressions", ""] = Field("Auto", examples=["Expressions"])
    """How admission writes the anti-affinity of leader pods (docs/reference/pod-webhooks.md#what-a-pod-gets). LabelKeys
    uses matchLabelKeys (Kubernetes 1.33), and Expressions uses matchExpressions. Auto uses matchLabelKeys if the API
    server has them. kube-scheduler places the pods in the same way."""


class SchedulingSettings(_Section):
    """Scheduling groups of JobSets (`spec.scheduling`). An extension: the Go manager's file has no such section."""

    when_unavailable: Literal["Hold", "Ignore", ""] = Field("Hold", examples=["Ignore"])
    """What happens to a JobSet if the API server does not serve the kinds of groups that it needs. Hold = its Jobs wait
    until they are served. Ignore = its Jobs run without groups. In both cases, a condition of the JobSet says so."""


class PolicySettings(_Section):
    """JobSetPolicies (docs/policy/admission.md). An extension: the Go manager's file has no such section."""

    queue_controllers: Texts = Field(("system:serviceaccount:kueue-system:kueue-controller-manager",), examples=[[]])
    """User names of queue controllers. Policies do not check the changes that they make to existing JobSets."""
    status_interval: Duration = Field(30.0, examples=["30s"])
    """Time between two writes in which a replica adds its new decisions to the counts in a policy's status; at least 1s
    (docs/policy/status.md). A replica without new decisions writes nothing."""
    audit_interval: Duration = Field(600.0, examples=["1h"])
    """Time from the start of one audit to the start of the next; at least 1s. An audit checks the stored JobSets by the
    policies (docs/policy/audit.md)."""
    reports: bool = Field(False, examples=[True])
    """Whether each audit writes reports (docs/policy/audit.md#reports). The manager needs more rights to write them."""

    @field_validator("status_interval", "audit_interval")
    @classmethod
    def _check_interval(cls, value: float) -> float:
        if value < MIN_POLICY_SECONDS:
            raise ValueError(f"must be at least {duration_text(MIN_POLICY_SECONDS)}, is {duration_text(value)}")
        return value


class NodeFailureSettings(_Section):
    """Failed nodes (`failurePolicy.nodeFailure`). An extension: the Go manager's file has no such section."""

    taints: Texts = Field((), examples=[["node.kubernetes.io/not-ready"]])
    """Keys of additional taints: a node with one of them counts as failed (docs/concepts/node-failure.md)."""


class Settings(_Section):
    """The whole configuration file."""

    api_version: str = Field(API_VERSION, examples=[API_VERSION])
    """Must be this value."""
    kind: str = Field(KIND, examples=[KIND])
    """Must be this value."""
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
    """Feature gates by name, or AllAlpha or AllBeta, each true or false (docs/reference/manager.md#feature-gates)."""

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
        """A copy in which the values of flags replace fields of one section. An absent flag has the value None."""
        flag_values = {name: value for name, value in values.items() if value is not None}
        current: BaseModel = getattr(self, section)
        try:
            checked = type(current).model_validate({to_camel(name): value for name, value in flag_values.items()})
        except ValidationError as error:
            raise SettingsError(
                "\n".join(f"flag for {to_camel(section)}.{fault}" for fault in fault_lines(type(current), error))
            ) from error
        update = {name: getattr(checked, name) for name in flag_values}
        return self.model_copy(update={section: current.model_copy(update=update)})

"""The configuration file: strict, with every fault named at once (docs/reference/configuration.md)."""

import re

import pytest

from app.settings import Settings, SettingsError
from app.settings_file import load, parse
from kube.model.durations import duration_text, parse_duration

HEAD = "apiVersion: config.jobset.x-k8s.io/v1alpha1\nkind: Configuration\n"


def test_defaults_are_those_of_the_go_manager():
    settings = parse(HEAD)
    assert settings.webhook.port == 9443
    assert settings.webhook.cert_dir == "/tmp/k8s-webhook-server/serving-certs"
    assert settings.leader_election.leader_elect is True
    assert (
        settings.leader_election.lease_duration,
        settings.leader_election.renew_deadline,
        settings.leader_election.retry_period,
    ) == (15, 10, 2)
    assert settings.leader_election.resource_name == "6d4f6a47.jobset.x-k8s.io"
    assert settings.metrics.bind_address == ":8443"
    assert settings.health.health_probe_bind_address == ":8081"
    assert (settings.health.liveness_endpoint_name, settings.health.readiness_endpoint_name) == ("/healthz", "/readyz")
    assert settings.internal_cert_management.enable is True
    assert settings.internal_cert_management.webhook_service_name == "jobset-webhook-service"
    assert settings.internal_cert_management.webhook_secret_name == "jobset-webhook-server-cert"
    assert (settings.client_connection.qps, settings.client_connection.burst) == (500, 500)
    assert (settings.child_dry_run.enable, settings.child_dry_run.budget) == (True, 3)
    assert settings.webhook.workers == 0
    assert load("") == settings


def test_a_ca_of_clients_is_named_as_kubernetes_names_it_and_off_by_default():
    assert parse(HEAD + "tls: {clientCAFile: /ca.crt}").tls.client_ca_file == "/ca.crt"
    assert parse(HEAD).tls.client_ca_file == ""
    with pytest.raises(SettingsError, match="unknown field"):
        parse(HEAD + "tls: {clientCaFile: /ca.crt}")


def test_zero_and_empty_values_mean_the_default():
    settings = parse(
        HEAD
        + "leaderElection: {leaseDuration: 0s, resourceName: ''}\npolicies: {statusInterval: 0s}\nwebhook: {certDir: '', host: null}\nmetrics: {bindAddress: ''}\nchildDryRun: {budget: 0s}"
    )
    assert settings == parse(HEAD)


@pytest.mark.parametrize(
    ("text", "seconds"), [("15s", 15), ("1m30s", 90), ("1.5h", 5400), ("250ms", 0.25), ("2us", 2e-6), ("0", 0)]
)
def test_durations_are_gos(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["15", "s", "1m 30s", "fast", "-5s", 15, None])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0s", "15s", "1m30s", "1h30m", "1h0.5s", "250ms", "0.002ms"])
def test_durations_are_written_as_they_are_read(text):
    assert duration_text(parse_duration(text)) == text


def test_every_fault_is_named_in_one_answer():
    text = HEAD + "webhook: {port: x, colour: red}\nfoo: 1\nfeatureGates: {Nope: true}\nclientConnection: {burst: 0}"
    with pytest.raises(SettingsError) as caught:
        parse(text)
    lines = str(caught.value).splitlines()
    assert len(lines) == 5
    assert 'webhook.colour: unknown field; the fields are: "certDir", "host", "port", "workers" (line 3)' in lines
    assert any(line.startswith("foo: unknown field; the fields are: ") for line in lines)
    assert any(line.startswith("webhook.port: ") for line in lines)
    assert any(line.startswith("featureGates.Nope: unknown feature gate 'Nope'") for line in lines)
    assert any(line.startswith("clientConnection.burst: ") for line in lines)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("kind: Config\nwebhook: {prot: 1}", ["apiVersion: must be", "kind: must be", "webhook.prot: unknown field"]),
        (
            HEAD + "webhook: {port: 1}\nwebhook: {prot: 2}",
            ["line 4: key 'webhook' is given twice", "webhook.prot: unknown field"],
        ),
        (
            HEAD + "featureGates: {RestartJobs: true, Nope: 3, ElasticJobSet: x, TLSOptions: false}",
            [
                "featureGates.RestartJobs: unknown feature gate 'RestartJobs': did you mean \"RestartJob\"? (line 3)",
                "featureGates.Nope: unknown feature gate 'Nope': known are ElasticJobSet, ",
                "featureGates.Nope: must be true or false (line 3)",
                "featureGates.ElasticJobSet: must be true or false (line 3)",
                "featureGates.TLSOptions: feature gate TLSOptions is GA and locked to true",
            ],
        ),
        (
            HEAD + "internalCertManagement: {webhookServiceName: A_B, webhookSecretName: C_D, keyAlgorithm: 1}",
            [
                "internalCertManagement.webhookServiceName: 'A_B' is not a DNS-1035 label",
                "internalCertManagement.webhookSecretName: 'C_D' is not a DNS-1123 subdomain",
                "internalCertManagement.keyAlgorithm: ",
            ],
        ),
        (
            HEAD + "leaderElection: {leaderElect: 'yes', leaseDuration: 5s, retryTime: 1s}",
            [
                "leaderElection.leaderElect: must be true or false (line 3)",
                "leaderElection.retryTime: unknown field",
                "leaderElection: leaseDuration (5s) must be longer than renewDeadline (10s), and that longer than",
            ],
        ),
        (
            HEAD + "leaderElection: {resourceName: A B, resourceNamespace: team.x, leaseDuration: 5s}",
            [
                "leaderElection.resourceName: 'A B' is not a DNS-1123 subdomain (line 3)",
                "leaderElection.resourceNamespace: 'team.x' is not a DNS-1123 label (line 3)",
                "leaderElection: leaseDuration (5s) must be longer than renewDeadline (10s), and that longer than",
            ],
        ),
        (
            HEAD + "leaderElection: {renewDeadline: 2.3s}",
            ["leaderElection: leaseDuration (15s) must be longer than renewDeadline (2.3s), and that longer than 1.2"],
        ),
        (
            HEAD + "leaderElection: {leaderElect: 'yes', leaseDuration: soon}",
            ["leaderElection.leaderElect: must be true", "leaderElection.leaseDuration: 'soon' is not a duration"],
        ),
        (
            HEAD + "tls: {minVersion: 1, cipherSuites: [ROT13]}",
            ["tls.minVersion: ", "tls.cipherSuites: invalid cipher suites: Cipher suite ROT13 not supported"],
        ),
    ],
)
def test_one_fault_hides_no_other(text, faults):
    with pytest.raises(SettingsError) as caught:
        parse(text)
    found = str(caught.value).splitlines()
    assert len(found) == len(faults)
    for fault in faults:
        assert any(line.startswith(fault) for line in found), (fault, found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- 1", "the file holds a list, and has to hold fields; write at least\n  apiVersion: config.jobset.x-k8s.io"),
        ("text", "the file holds a single value, and has to hold fields; write at least\n  apiVersion: "),
        (
            "",
            f"the file is empty, or holds only comments; write at least\n  {HEAD.strip().replace(chr(10), chr(10) + '  ')}",
        ),
        ("# webhook: {}", "the file is empty, or holds only comments"),
        (HEAD + "webhook: {host: a b}", "webhook.host: cannot listen on 'a b': it is neither an address nor the name"),
        (HEAD + "metrics: {bindAddress: 'a b:1'}", "metrics.bindAddress: cannot listen on 'a b': it is neither"),
        (
            HEAD + "health: {livenessEndpointName: readyz/}",
            "health: readinessEndpointName and livenessEndpointName are both /readyz: give each a path of its own",
        ),
        ("kind: Configuration", "apiVersion: must be config.jobset.x-k8s.io/v1alpha1, is missing"),
        (HEAD.replace("Configuration", "Config"), 'kind: must be Configuration, is "Config"'),
        (HEAD + "webhook: {port: 1}\nwebhook: {port: 2}", "line 4: key 'webhook' is given twice"),
        (HEAD + "a: [", "not YAML"),
        (HEAD + "webhook: {port: 70000}", "webhook.port: "),
        (HEAD + "tls: {minVersion: VersionTLS10}", "invalid minVersion: VersionTLS10 is not supported"),
        (HEAD + "tls: {minVersion: TLS9}", 'invalid minVersion: unknown tls version "TLS9"'),
        (HEAD + "tls: {cipherSuites: [ROT13]}", "invalid cipher suites: Cipher suite ROT13 not supported"),
        (
            HEAD + "tls: {minVersion: VersionTLS13, cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}",
            "may not be specified when `minVersion` is 'VersionTLS13'",
        ),
        (
            HEAD + "leaderElection: {leaseDuration: 5s}",
            "leaderElection: leaseDuration (5s) must be longer than renewDeadline (10s)",
        ),
        (HEAD + "policies: {statusInterval: 500ms}", "policies.statusInterval: must be at least 1s, is 500ms (line 3)"),
        (HEAD + "policies: {auditInterval: 1ms}", "policies.auditInterval: must be at least 1s, is 1ms (line 3)"),
        (HEAD + "internalCertManagement: {webhookServiceName: No_Dns}", "is not a DNS-1035 label"),
        (HEAD + "featureGates: {TLSOptions: false}", "locked to true"),
        (HEAD + "childDryRun: {budget: 9s}", "childDryRun.budget: must be at most 8s, is 9s: the API server waits 10s"),
        (HEAD + "childDryRun: {lookUp: [Pods]}", "childDryRun.lookUp.0: must be 'ConfigMaps' or 'Secrets' (line 3)"),
        (HEAD + "childDryRun: {lookUp: Secrets}", "childDryRun.lookUp: must be a list (line 3)"),
        (HEAD + "limits: {jobsPerSet: 0}", "limits.jobsPerSet: "),
        (HEAD + "childDryRun: {budget: 3}", "childDryRun.budget: must be a duration such as 15s"),
        (HEAD + "childDryRun: {enabled: true}", 'childDryRun.enabled: unknown field; did you mean "enable"?'),
        (HEAD + "\nleaderElektion: {}", 'leaderElektion: unknown field; did you mean "leaderElection"?'),
        (HEAD + "tls:\n  cipherSuites:\n  - 1", "tls.cipherSuites.0: must be a text (line 4)"),
        (HEAD + "metrics: 3", "metrics: must be a mapping with some of bindAddress, certDir (line 3)"),
        (HEAD + "metrics: {bindAddress: x}", "metrics.bindAddress: cannot listen on 'x': write host:port, :port or"),
        (
            HEAD + "health: {healthProbeBindAddress: ':99999'}",
            "health.healthProbeBindAddress: cannot listen on ':99999'",
        ),
        (HEAD + "? [a]\n: 1", "not YAML"),
    ],
)
def test_faults_say_where_and_why(text, words):
    with pytest.raises(SettingsError, match=re.escape(words)):
        parse(text)


def test_all_sections_are_named_beside_one_that_does_not_exist():
    with pytest.raises(SettingsError) as caught:
        parse(HEAD + "colour: red")
    for field in Settings.model_fields.values():
        assert f'"{field.alias}"' in str(caught.value)


def test_certificate_names_are_not_checked_when_not_used():
    parse(HEAD + "internalCertManagement: {enable: false, webhookServiceName: No_Dns}")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"cannot read the configuration file .*none.yaml: .*No such file"):
        load(str(tmp_path / "none.yaml"))


def test_flags_are_checked_like_the_file():
    with pytest.raises(SettingsError, match=r"flag for clientConnection\.burst: must be above 0"):
        parse(HEAD).override("client_connection", qps=None, burst=0)


def test_flags_that_are_given_win_and_others_change_nothing():
    settings = parse(HEAD + "clientConnection: {qps: 5, burst: 6}")
    assert settings.override("client_connection", qps=None, burst=None) == settings
    changed = settings.override("client_connection", qps=50.5, burst=None)
    assert (changed.client_connection.qps, changed.client_connection.burst) == (50.5, 6)


def test_the_child_dry_run_can_be_switched_off_and_given_another_budget():
    assert parse(HEAD + "childDryRun: {enable: false}").child_dry_run.enable is False
    assert parse(HEAD + "childDryRun: {budget: 500ms}").child_dry_run.budget == 0.5


def test_nothing_more_is_looked_up_unless_it_is_named():
    assert parse(HEAD).child_dry_run.look_up == ()
    assert parse(HEAD + "childDryRun: {lookUp: [Secrets]}").child_dry_run.look_up == ("Secrets",)


def test_limits_of_jobs_and_pods_of_a_set():
    assert parse(HEAD + "limits: {podsPerSet: 5}").limits.pods_per_set == 5
    assert parse(HEAD).limits.jobs_per_set == 100_000


def test_what_becomes_of_gangs_that_the_cluster_cannot_schedule():
    assert parse(HEAD).scheduling.when_unavailable == "Hold"
    assert parse(HEAD + "scheduling: {whenUnavailable: Ignore}").scheduling.when_unavailable == "Ignore"
    with pytest.raises(SettingsError, match=r"scheduling\.whenUnavailable: .*'Hold' or 'Ignore' \(line 3\)"):
        parse(HEAD + "scheduling: {whenUnavailable: Wait}")


@pytest.mark.parametrize(
    "gates", ["JobSetGangOfGangs: true", "AllAlpha: true, JobSetWorkloadAwareSchedulingAPI: false"]
)
def test_groups_of_groups_need_groups(gates):
    with pytest.raises(SettingsError, match="JobSetGangOfGangs needs JobSetWorkloadAwareSchedulingAPI"):
        parse(HEAD + f"featureGates: {{{gates}}}")

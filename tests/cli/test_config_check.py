"""`jobset manager --check-config`: what is in force, where it comes from, and faults with place and remedy."""

import json

import pytest

from app.settings_file import parse
from cli import main as cli

HEAD = "apiVersion: config.jobset.x-k8s.io/v1alpha1\nkind: Configuration\n"
FILE = (
    HEAD
    + """
clientConnection: {qps: 50.5, burst: 7}
leaderElection: {leaseDuration: 1m30s}
tls: {cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}
featureGates: {RestartJob: true}
"""
)


@pytest.fixture
def check(tmp_path, capsys):
    """Checks a file with further flags; gives the exit code, what was printed and what went wrong."""

    def run(text, *flags):
        file = tmp_path / "manager.yaml"
        file.write_text(text)
        code = cli.main(["manager", f"--check-config={file}", *flags])
        return code, *capsys.readouterr()

    return run


def test_the_table_says_what_is_in_force_and_what_sets_it(check):
    flags = ("-metrics-bind-address=:99", "--kube-api-burst", "8", "--feature-gates=AllAlpha=true,RestartJob=false")
    code, out, err = check(FILE, *flags)
    assert (code, err) == (0, "")
    lines = {key: (value, origin) for key, value, origin in (line.split() for line in out.splitlines())}
    assert lines["KEY"] == ("VALUE", "FROM")
    assert lines["webhook.port"] == ("9443", "default")
    assert lines["webhook.host"] == ('""', "default")
    assert lines["clientConnection.qps"] == ("50.5", "file")
    assert lines["clientConnection.burst"] == ("8", "flag")
    assert lines["leaderElection.leaseDuration"] == ("1m30s", "file")
    assert lines["tls.cipherSuites"] == ('["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]', "file")
    assert lines["metrics.bindAddress"] == (":99", "flag")
    assert lines["featureGates.RestartJob"] == ("false", "flag")
    assert lines["featureGates.ElasticJobSet"] == ("true", "flag")
    assert lines["featureGates.TLSOptions"] == ("true", "default")


def test_gates_of_the_file_are_from_the_file(check):
    out = check(FILE)[1]
    assert [line.split()[1:] for line in out.splitlines() if "RestartJob" in line] == [["true", "file"]]


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_other_forms_are_files_with_the_same_meaning(check, form):
    code, out, _ = check(FILE, "-o", form)
    assert code == 0
    again = parse(out)
    wanted = parse(FILE)
    assert again.model_copy(update={"feature_gates": wanted.feature_gates}) == wanted
    assert again.feature_gates["RestartJob"] is True
    assert check(out, "--output", form)[1] == out
    if form == "json":
        assert json.loads(out)["leaderElection"]["leaseDuration"] == "1m30s"


@pytest.mark.parametrize(
    ("text", "flags", "words"),
    [
        (HEAD + "webhook:\n  prot: 9443\n", (), 'webhook.prot: unknown field; did you mean "port"? the fields are: '),
        (HEAD + "webhook:\n  port: x\n", (), "webhook.port: must be a whole number (line 4)"),
        (HEAD + "webhook: [\n", (), "not YAML: expected the node content, but found '<stream end>' (line 4, column 1)"),
        (
            HEAD + "leaderElection: {leaderElect: 'yes'}",
            (),
            "leaderElection.leaderElect: must be true or false (line 3)",
        ),
        (HEAD + "internalCertManagement: {keyAlgorithm: x}", (), "keyAlgorithm: must be 'ECDSA' or 'RSA' (line 3)"),
        (HEAD, ("--kube-api-burst=0",), "flag for clientConnection.burst: must be above 0"),
        (HEAD, ("--metrics-bind-address=x",), "flag for metrics.bindAddress: cannot listen on 'x': write host:port"),
        (HEAD, ("--feature-gates=Nope=true",), "unknown feature gate 'Nope'"),
        (HEAD, ("--zap-encoder=xml",), "xml"),
    ],
)
def test_faults_have_a_place_and_a_remedy_and_flags_exit_code_2(check, text, flags, words):
    code, out, err = check(text, *flags)
    assert (code, out) == (2 if flags else 1, "")
    assert err.startswith("jobset manager: ")
    assert words in err


@pytest.mark.parametrize(
    ("text", "flags", "names", "port"),
    [
        ("metrics: {bindAddress: ':8081'}", (), "metrics.bindAddress and health.healthProbeBindAddress", 8081),
        ("webhook: {port: 8081}", (), "webhook.port and health.healthProbeBindAddress", 8081),
        ("webhook: {port: 8443, host: 10.0.0.7}", (), "webhook.port and metrics.bindAddress", 8443),
        ("", ("--metrics-bind-address=127.0.0.1:9443",), "webhook.port and metrics.bindAddress", 9443),
    ],
)
def test_two_settings_with_one_port_are_both_named(check, text, flags, names, port):
    code, out, err = check(HEAD + text, *flags)
    assert (code, out) == (2 if flags else 1, "")
    assert f"{names}: both listen on port {port}; give" in err


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("metrics: {bindAddress: '127.0.0.1:7000'}\nhealth: {healthProbeBindAddress: '10.0.0.7:7000'}", ()),
        ("metrics: {bindAddress: '0'}\nhealth: {healthProbeBindAddress: '0'}", ()),
        ("metrics: {bindAddress: ':0'}\nhealth: {healthProbeBindAddress: ':0'}\nwebhook: {port: 0}", ()),
        ("webhook: {port: 8081}", ("--webhooks=false",)),
    ],
)
def test_ports_that_differ_or_are_not_used_are_no_fault(check, text, flags):
    assert check(HEAD + text, *flags)[0] == 0


def test_faults_of_the_file_and_of_flags_are_told_together(check):
    flags = ("--kube-api-burst=0", "--feature-gates=RestartJobs=true")
    code, _, err = check(HEAD + "webhook: {prot: 1}\nfeatureGates: {Nope: true}", *flags)
    assert code == 1
    for fault in (
        "\nwebhook.prot: unknown field",
        "\nfeatureGates.Nope: unknown feature gate 'Nope'",
        "\nflag for clientConnection.burst: must be above 0",
        "\nflag --feature-gates: unknown feature gate 'RestartJobs': did you mean \"RestartJob\"?\n",
    ):
        assert fault in err


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--check-config=", "argument --check-config: it names no file: write a file, or leave out the flag"),
        ("--kube-api-qps=abc", "argument --kube-api-qps: 'abc' is not a number"),
        ("--kube-api-burst=1.5", "argument --kube-api-burst: '1.5' is not a whole number"),
        ("--frobnicate", "unknown: --frobnicate"),
    ],
)
def test_a_wrong_flag_is_one_line_of_the_manager_and_starts_nothing(command, flag, words):
    """An empty file name is that of a shell variable that is not set."""
    code, out, err = command("manager", flag)
    assert (code, out) == (2, "")
    assert err.startswith(f"jobset manager: {words}")
    assert err.count("\n") == 1
    assert err.endswith("; `jobset manager --help` says more\n")

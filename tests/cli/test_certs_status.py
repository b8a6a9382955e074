"""What `jobset certs status` says about certificates and those who have to trust them (docs/certificates.md)."""

import base64
import io
import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from certs.manager import service_hosts
from certs.material import Material, Renewal, secret_data
from certs.pki import ImpureInputs, renew
from certs.remedies import APPLY_AGAIN
from certs.renewal import new_key
from cli.certificates.run import write
from cli.main import main
from manifests import crd, install_objects, policy_objects
from manifests.admission import webhook_configurations
from manifests.installed.certificates import CERT_MANAGER, InstalledObjects, Status, certificate_status
from tests.support.bad_certificates import BAD, curve, key_pem
from tests.support.endpoints import endpoints
from tests.support.tls import DAY, NOW, fresh, material

HOSTS = service_hosts("jobset-webhook-service", "jobset-system")
GOOD, OTHER = material(hosts=HOSTS), material(hosts=HOSTS)
SECRET = "jobset-system/jobset-webhook-server-cert"
POLICY_WEBHOOKS = {f"{kind}jobsetpolicy{more}.kb.io" for kind in "mv" for more in ("", "exception")}
CRD = "jobsets.jobset.x-k8s.io"


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


stored_crd = cache(crd)


def found(stored: Material = GOOD, bundle: bytes | None = None, **annotations: str) -> InstalledObjects:
    """An installation whose Secret holds `stored`; the configurations trust its CAs, or `bundle`."""
    installed = webhook_configurations(ca_bundle=stored.authorities if bundle is None else bundle)
    configurations = {(body["kind"], body["metadata"]["name"]): body for body in installed}
    secret = {"metadata": {"annotations": annotations}, "data": secret_data(stored)}
    return InstalledObjects(
        SECRET, secret, dict(configurations), CRD, {**stored_crd(), "spec": {**stored_crd()["spec"]}}
    )


def edited(webhook: int = 0, injector: str = "", **client: Any) -> InstalledObjects:
    """The same after a change of a webhook that validates: members of its clientConfig; None takes one away."""
    start = found()
    [body] = [body for (of, _), body in start.configurations.items() if of.startswith("Validating")]
    assert body is not None
    body["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": injector} if injector else {}
    hook = body["webhooks"][webhook]
    hook["clientConfig"] = {key: value for key, value in (hook["clientConfig"] | client).items() if value is not None}
    return start


def problems(of: InstalledObjects, days: float = 0) -> tuple[str, ...]:
    return certificate_status(of, NOW + days * DAY).problems


def test_a_good_installation_has_no_problem_and_says_what_there_is():
    status = certificate_status(found(), NOW)
    assert status.problems == ()
    assert (status.secret, status.renewed_by, status.conversion) == (SECRET, "the manager", "None")
    serving, authority = status.certificates
    assert (serving.use, serving.key, serving.names, serving.days_left) == ("serving", "ECDSA P-256", HOSTS, 365)
    assert (authority.use, authority.days_left) == ("CA", 3650)
    assert serving.issuer == authority.subject == authority.issuer
    assert serving.renewal == (NOW + 275 * DAY).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert {(of.host, of.bundle_written_by, of.problem) for of in status.callers} == {(HOSTS[0], "the manager", "")}
    names = ("mjobset", "mpod", "mpodlabel", "mpodspare", "vjobset", "vpod")
    assert [of.webhook for of in status.callers] == [f"{name}.kb.io" for name in names]


def test_keys_of_every_kind_are_named():
    serial = fresh().new_serial
    rsa = renew(Material(), Renewal.ALL, HOSTS, ImpureInputs(NOW, lambda: new_key("RSA"), serial))
    assert {each.key for each in certificate_status(found(rsa), NOW).certificates} == {"RSA 3072"}
    assert certificate_status(found(BAD["CA with Ed25519"].material), NOW).certificates[1].key == "Ed25519"
    unknown = BAD["CA on a curve that Go does not know"].material
    assert certificate_status(found(unknown), NOW).certificates[1].key == "ECDSA secp256k1"


def test_an_earlier_ca_is_named_and_its_end_is_no_problem():
    new = renew(GOOD, Renewal.ALL, HOSTS, fresh(NOW + 3600 * DAY))
    status = certificate_status(found(new), NOW + 3645 * DAY)
    assert [each.use for each in status.certificates] == ["serving", "CA", "earlier CA"]
    assert status.problems == ()


@pytest.mark.parametrize(
    ("days", "problem"),
    [
        (275.9, ""),
        (276.1, "the serving certificate should have been renewed at {renewal}: the log of the manager says why"),
        (351.1, "the serving certificate expires at {end}, in 13 days"),
        (365, "the serving certificate has expired at {end}"),
        (-1, "the serving certificate is not valid before "),
    ],
)
def test_the_time_that_is_left(days: float, problem: str):
    said = [line for line in problems(found(), days) if "serving" in line]
    times = {"end": NOW + 365 * DAY, "renewal": NOW + 275 * DAY}
    wanted = problem.format(**{name: time.strftime("%Y-%m-%dT%H:%M:%SZ") for name, time in times.items()})
    assert [line.startswith(wanted) for line in said] == ([True] if problem else [])


def test_the_end_of_the_ca_is_a_problem_too():
    assert any(line.startswith("the CA has expired at ") for line in problems(found(), 3650))


def test_a_certificate_of_cert_manager_is_renewed_by_it_and_has_no_time_of_renewal():
    theirs = replace(GOOD, authority_key=b"")
    status = certificate_status(found(theirs, **{CERT_MANAGER: "serving-cert"}), NOW + 300 * DAY)
    assert status.renewed_by == "cert-manager, Certificate serving-cert"
    assert {each.renewal for each in status.certificates} == {""}
    assert status.problems == ()
    assert certificate_status(found(theirs), NOW).renewed_by == "somebody else"


def test_a_key_of_our_ca_that_is_left_in_a_secret_of_cert_manager_means_nothing():
    status = certificate_status(found(**{CERT_MANAGER: "serving-cert"}), NOW + 300 * DAY)
    assert status.renewed_by == "cert-manager, Certificate serving-cert"
    assert status.problems == ()


def self_signed() -> Material:
    """As a self-signed issuer of cert-manager makes it: no CA, no name of its own, no identifiers of keys."""
    key, nobody = curve(), x509.Name([])
    builder = x509.CertificateBuilder(nobody, nobody, key.public_key(), 1, NOW - DAY, NOW + 365 * DAY)
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS])
    builder = builder.add_extension(names, critical=True)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return Material(authorities=pem, certificate=pem, key=key_pem(key))


def test_a_certificate_that_is_its_own_ca_is_good_beside_earlier_ones():
    earlier, current = self_signed(), self_signed()
    for bundle in (current.authorities, earlier.authorities + current.authorities):
        assert problems(found(current, bundle)) == ()
    said = problems(found(current, earlier.authorities))
    assert len(said) == 6
    assert all("the certificate is refused for" in line for line in said)


SERVICE = {"name": "jobset-webhook-service", "namespace": "jobset-system", "port": 443}


@pytest.mark.parametrize(
    ("client", "says"),
    [
        ({"url": "https://hook.example.com:9443/x"}, "the certificate is refused for hook.example.com: "),
        ({"service": {**SERVICE, "path": "/validate"}}, "it is called at /validate, where the manager does not serve"),
        *[({"url": url}, "") for url in ("", "https://[", "https://.x/")],
    ],
)
def test_where_a_webhook_cannot_be_reached_is_a_problem(client: dict[str, Any], says: str):
    [problem] = problems(edited(**{"service": None, **client}))
    assert f"vjobset.kb.io: {says}" in problem


def test_a_bundle_that_is_not_there_is_a_problem_and_who_writes_it_is_said():
    status = certificate_status(edited(webhook=1, injector="ns/cert", caBundle=""), NOW)
    name = "jobset-validating-webhook-configuration"
    [problem] = status.problems
    assert problem.partition(", ")[2] == (
        "vpod.kb.io: caBundle holds no certificate; annotation cert-manager.io/inject-ca-from asks another program to"
        " write caBundle: see its log, or have the manager write it: kubectl annotate validatingwebhookconfiguration"
        f" {name} cert-manager.io/inject-ca-from-"
    )
    assert status.callers[-1].bundle_written_by == "cert-manager.io/inject-ca-from"


def test_what_is_missing_is_named():
    nothing = found()
    nothing = replace(nothing, secret=None, crd=None, configurations=dict.fromkeys(nothing.configurations))
    make = (
        "kubectl create secret generic -n jobset-system jobset-webhook-server-cert makes it, and the manager fills it"
    )
    assert problems(nothing) == (
        f"Secret {SECRET} does not exist: {make}; or name another with -n and --secret",
        f"MutatingWebhookConfiguration jobset-mutating-webhook-configuration does not exist: {APPLY_AGAIN}",
        f"ValidatingWebhookConfiguration jobset-validating-webhook-configuration does not exist: {APPLY_AGAIN}",
        f"CustomResourceDefinition {CRD} does not exist: kubectl apply --server-side --force-conflicts -k manifests/crd",
    )
    assert (certificate_status(nothing, NOW).renewed_by, certificate_status(nothing, NOW).callers) == ("", ())
    empty = found()
    next(iter(empty.configurations.values()))["webhooks"] = []  # type: ignore[index]
    [problem] = problems(empty)
    assert problem.endswith("lists no webhook: see `jobset webhooks status`")


def test_webhooks_of_a_manager_outside_the_cluster_are_not_put_back_by_install_yaml():
    by_url = found()
    for body in install_objects(webhook_url="https://127.0.0.1:9443", ca_bundle=GOOD.authorities):
        if body["kind"].startswith("Mutating"):
            by_url.configurations[body["kind"], body["metadata"]["name"]] = body
        elif body["kind"].startswith("Validating"):
            by_url.configurations[body["kind"], body["metadata"]["name"]] = None
    [missing] = [line for line in problems(by_url) if "does not exist" in line]
    assert "does not exist: apply again what you have installed, but not manifests/install.yaml" in missing
    assert missing.endswith("jobset cluster down --name demo && jobset demo --keep")


def test_nobody_renews_a_secret_that_does_not_exist_or_is_empty():
    for secret in (None, {"metadata": {}}):
        status = certificate_status(replace(found(), secret=secret), NOW)
        assert status.renewed_by == ""
        assert {each.bundle_written_by for each in status.callers} == {"not known"}
        assert written(status, "table").startswith(f"Secret {SECRET}: no certificate\n")
        assert "somebody else" not in written(status, "table")
        assert "trusted" not in written(status, "table"), "what is not there is trusted by nobody"


def test_webhooks_of_policies_are_callers_where_they_are_installed(command: Any, connected: Any):
    def shown(*more: dict[str, Any]) -> tuple[int, set[str], list[str]]:
        connected({"kind": "Secret", "metadata": {"name": "jobset-webhook-server-cert"}}, *install_objects(), *more)
        code, out, _ = command("certs", "status", "-o", "json")
        body = json.loads(out)
        return code, {each["webhook"] for each in body["callers"]}, body["problems"]

    code, without, problems = shown()
    assert (code, without & POLICY_WEBHOOKS, "policy" in str(problems)) == (1, set(), False)
    code, with_them, problems = shown(*policy_objects())
    assert (code, with_them - without) == (1, POLICY_WEBHOOKS)
    assert any("jobset-policy-validating-webhook-configuration" in problem for problem in problems)


@pytest.mark.parametrize("data", [None, {}, {"tls.crt": "no base64!"}, {"tls.crt": encoded(b"no PEM")}])
def test_a_secret_without_a_certificate_is_a_problem(data: object):
    empty = replace(found(), secret={"metadata": {}, "data": data})
    assert problems(empty) == (f"Secret {SECRET}: tls.crt holds no certificate that can be read",)


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_whatever_the_secret_holds_it_is_described(bad: Any):
    assert certificate_status(found(bad.material), NOW).secret == SECRET


def test_a_crd_that_converts_by_a_webhook_is_a_caller_too():
    start = found()
    service = {"name": "jobset-webhook-service", "namespace": "jobset-system"}
    client = {"service": service, "caBundle": encoded(OTHER.authorities)}
    start.crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": client}}  # type: ignore[index]
    status = certificate_status(start, NOW)
    assert status.conversion == "Webhook"
    assert [line.partition(": ")[0] for line in status.problems] == [f"CustomResourceDefinition {CRD}, conversion"]


def written(status: Status, output: str) -> str:
    out = io.StringIO()
    write(status, output, out)
    return out.getvalue()


def test_all_forms_say_the_same():
    status = certificate_status(found(bundle=OTHER.authorities), NOW)
    body = json.loads(written(status, "json"))
    assert yaml.safe_load(written(status, "yaml")) == body
    assert list(body) == ["secret", "renewedBy", "certificates", "callers", "conversion", "problems"]
    members = "use subject issuer key names notBefore notAfter daysLeft renewal"
    assert set(body["certificates"][0]) == set(members.split())
    assert set(body["callers"][0]) == {"kind", "name", "webhook", "host", "bundleWrittenBy", "problem"}
    table = written(status, "table")
    lines = table.splitlines()
    assert lines[0] == f"Secret {SECRET}, renewed by the manager"
    assert [line.split("  ")[0] for line in lines[2:5]] == ["CERTIFICATE", "serving", "CA"]
    assert sum(line.startswith("problem: ") for line in lines) == len(body["problems"]) == 6
    assert "PRIVATE" not in table + json.dumps(body)


AUTHORITY = {key: value for key, value in secret_data(GOOD).items() if not key.startswith("tls")}


@pytest.mark.parametrize(
    ("data", "says"), [(secret_data(GOOD), "trusted"), (AUTHORITY, "there is none"), ({}, "there is none")]
)
def test_the_table_says_whether_callers_trust_a_certificate_or_there_is_none(data: dict[str, str], says: str):
    status = certificate_status(replace(found(), secret={"metadata": {}, "data": data}), NOW)
    lines = written(status, "table").splitlines()
    assert {line.split("  ")[-1].strip() for line in lines if ".kb.io" in line} == {says}


def test_words_of_others_cannot_move_the_cursor():
    theirs = replace(GOOD, authority_key=b"")
    assert "\x1b" not in written(certificate_status(found(theirs, **{CERT_MANAGER: "\x1b[2J"}), NOW), "table")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--kubeconfig", "/nowhere/at/all"], "no such file"),
        (["--secret", "a/b"], "'a/b' is not a name"),
        (["-n", "A"], "'A' is not a name"),
    ],
)
def test_what_cannot_be_known_ends_with_2_and_one_clear_line(args: list[str], words: str, capsys: Any):
    assert main(["certs", "status", *args]) == 2
    said = capsys.readouterr().err
    assert said.startswith("jobset certs status: ")
    assert words in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("denied", "code", "says"),
    [
        ("policy", 0, ""),
        ("jobset-webhook-server-cert", 2, 'in API group ""; ask for the right to get secrets\n'),
    ],
)
def test_a_right_that_is_missing_is_named_but_none_for_policies(command, connected, monkeypatch, denied, code, says):
    monkeypatch.setattr("cli.certificates.run.now", lambda: NOW)
    here = found()
    secret = {**(here.secret or {}), "metadata": {"name": "jobset-webhook-server-cert"}}
    objects = [{**secret, "kind": "Secret"}, *filter(None, here.configurations.values()), crd(), endpoints(True)]
    connected(*objects).refuse(denied, 'User "u" cannot get resource "secrets" in API group ""')
    ended, _, err = command("certs", "status")
    assert (ended, err[-len(says) :] if says else err) == (code, says)

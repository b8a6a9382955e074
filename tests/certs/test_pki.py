"""What certificates look like, and when they are renewed (docs/reference/manager.md#certificates)."""

import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from certs.pki import Material, Renewal, certificates, decide, renew
from certs.source import Live
from tests.support.tls import DAY, HOSTS, NOW, fresh, material

GOOD = material()
OTHER = material()


def test_the_ca_may_sign_certificates_and_nothing_below_it_may():
    ca, leaf = certificates(GOOD.authorities)[0], certificates(GOOD.certificate)[0]
    constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value.ca
    assert ca.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not leaf.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert ca.serial_number > 0
    leaf.verify_directly_issued_by(ca)


def test_lifetimes():
    ca, leaf = certificates(GOOD.authorities)[0], certificates(GOOD.certificate)[0]
    assert ca.not_valid_after_utc - NOW == 3650 * DAY
    assert leaf.not_valid_after_utc - NOW == 365 * DAY
    assert ca.not_valid_before_utc == leaf.not_valid_before_utc == NOW - DAY / 24


def test_names_and_addresses_are_told_apart():
    names = certificates(GOOD.certificate)[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hook.ns.svc", "localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_a_host_name_longer_than_a_common_name_is_no_problem():
    long = "jobset-webhook-service." + "n" * 63 + ".svc"
    assert decide(material(hosts=(long,)), (long,), NOW).renewal is Renewal.NOTHING


@pytest.mark.parametrize(
    ("given", "renewal", "reason"),
    [
        (GOOD, Renewal.NOTHING, ""),
        (Material(), Renewal.ALL, "there is no CA yet"),
        (replace(GOOD, authorities=b"x"), Renewal.ALL, "the CA cannot be read"),
        (replace(GOOD, authority_key=b"x"), Renewal.ALL, "the CA cannot be read"),
        (replace(GOOD, authority_key=OTHER.authority_key), Renewal.ALL, "the CA and its key do not belong together"),
        (replace(GOOD, certificate=b""), Renewal.SERVING, "the serving certificate or its key cannot be read"),
        (replace(GOOD, key=b"x"), Renewal.SERVING, "the serving certificate or its key cannot be read"),
        (replace(GOOD, key=OTHER.key), Renewal.SERVING, "the serving certificate and its key do not belong together"),
        (
            replace(GOOD, certificate=OTHER.certificate, key=OTHER.key),
            Renewal.SERVING,
            "the serving certificate is not signed by the CA",
        ),
        (
            material(hosts=("a", "b")),
            Renewal.SERVING,
            "the serving certificate does not name 127.0.0.1, hook.ns.svc, localhost",
        ),
    ],
)
def test_what_is_wrong_is_renewed(given: Material, renewal: Renewal, reason: str):
    decision = decide(given, HOSTS, NOW)
    assert (decision.renewal, decision.reason) == (renewal, reason)
    assert decide(renew(given, renewal, HOSTS, fresh()), HOSTS, NOW).renewal is Renewal.NOTHING


@pytest.mark.parametrize(
    ("days", "renewal"),
    [
        (0, Renewal.NOTHING),
        (274, Renewal.NOTHING),
        (275, Renewal.SERVING),
        (366, Renewal.SERVING),
        (3559, Renewal.SERVING),
        (3560, Renewal.ALL),
        (4000, Renewal.ALL),
        (-1, Renewal.ALL),
    ],
)
def test_everything_is_renewed_90_days_before_its_end(days: int, renewal: Renewal):
    assert decide(GOOD, HOSTS, NOW + days * DAY).renewal is renewal


def test_renewing_the_certificate_keeps_the_ca():
    new = renew(GOOD, Renewal.SERVING, HOSTS, fresh())
    assert (new.authorities, new.authority_key) == (GOOD.authorities, GOOD.authority_key)
    assert new.certificate != GOOD.certificate


def test_renewing_the_ca_keeps_the_old_one_in_the_bundle_while_it_is_valid():
    new = renew(GOOD, Renewal.ALL, HOSTS, fresh(NOW + 3600 * DAY))
    assert [cert.serial_number for cert in certificates(new.authorities)][1:] == [
        certificates(GOOD.authorities)[0].serial_number
    ]
    newer = renew(new, Renewal.ALL, HOSTS, fresh(NOW + 7000 * DAY))
    assert len(certificates(newer.authorities)) == 2
    late = renew(GOOD, Renewal.ALL, HOSTS, fresh(NOW + 4000 * DAY))
    assert len(certificates(late.authorities)) == 1


def test_two_programs_with_different_hosts_come_to_agree():
    first = renew(Material(), Renewal.ALL, ("a",), fresh())
    second = renew(first, decide(first, ("b",), NOW).renewal, ("b",), fresh())
    assert decide(second, ("a",), NOW).renewal is Renewal.NOTHING
    assert decide(second, ("b",), NOW).renewal is Renewal.NOTHING


def test_an_rsa_ca_with_serial_number_0_as_the_go_jobset_makes_it_is_kept(tmp_path: Path):
    ca, key = tmp_path / "ca.crt", tmp_path / "ca.key"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -set_serial 0 -subj /O=jobset/CN=jobset-ca -addext keyUsage=keyCertSign,digitalSignature"
    subprocess.run([*make.split(), "-keyout", str(key), "-out", str(ca)], check=True, capture_output=True)  # noqa: S603 -- a fixed command
    theirs = Material(ca.read_bytes(), key.read_bytes())
    # openssl's "now" may be a second after ours.
    now = NOW + DAY
    decision = decide(theirs, HOSTS, now)
    assert decision.renewal is Renewal.SERVING
    new = renew(theirs, decision.renewal, HOSTS, fresh(now))
    assert new.authorities == theirs.authorities
    assert decide(new, HOSTS, now).renewal is Renewal.NOTHING


def test_keys_do_not_show_in_what_a_log_would_print():
    assert "PRIVATE" not in repr(
        Live(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate=GOOD.certificate, key=GOOD.key)
    )
    assert "PRIVATE" not in repr(GOOD)

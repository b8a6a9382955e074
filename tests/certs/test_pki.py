"""What certificates look like, and what a new one keeps of the old (docs/reference/manager.md#certificates)."""

import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

from cryptography import x509

from certs.decision import decide
from certs.material import Material, Renewal
from certs.pki import MAX_AUTHORITIES, read_certificates, renew
from certs.source import LiveContext
from tests.support.tls import DAY, HOSTS, NOW, fresh, material

GOOD = material()


def test_the_ca_may_sign_certificates_and_nothing_below_it_may():
    ca, leaf = read_certificates(GOOD.authorities)[0], read_certificates(GOOD.certificate)[0]
    constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value.ca
    assert ca.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not leaf.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert ca.serial_number > 0
    leaf.verify_directly_issued_by(ca)


def test_lifetimes():
    ca, leaf = read_certificates(GOOD.authorities)[0], read_certificates(GOOD.certificate)[0]
    assert ca.not_valid_after_utc - NOW == 3650 * DAY
    assert leaf.not_valid_after_utc - NOW == 365 * DAY
    assert ca.not_valid_before_utc == leaf.not_valid_before_utc == NOW - DAY / 24


def test_names_and_addresses_are_told_apart():
    names = read_certificates(GOOD.certificate)[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hook.ns.svc", "localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_a_host_name_longer_than_a_common_name_is_no_problem():
    long = "jobset-webhook-service." + "n" * 63 + ".svc"
    assert decide(material(hosts=(long,)), (long,), NOW).renewal is Renewal.NOTHING


def test_renewing_the_certificate_keeps_the_ca():
    new = renew(GOOD, Renewal.SERVING, HOSTS, fresh())
    assert (new.authorities, new.authority_key) == (GOOD.authorities, GOOD.authority_key)
    assert new.certificate != GOOD.certificate


def test_renewing_the_ca_keeps_the_old_one_in_the_bundle_while_it_is_valid():
    new = renew(GOOD, Renewal.ALL, HOSTS, fresh(NOW + 3600 * DAY))
    assert [cert.serial_number for cert in read_certificates(new.authorities)][1:] == [
        read_certificates(GOOD.authorities)[0].serial_number
    ]
    newer = renew(new, Renewal.ALL, HOSTS, fresh(NOW + 7000 * DAY))
    assert len(read_certificates(newer.authorities)) == 2
    late = renew(GOOD, Renewal.ALL, HOSTS, fresh(NOW + 4000 * DAY))
    assert len(read_certificates(late.authorities)) == 1


def test_cas_that_follow_each_other_fast_stay_in_the_bundle_up_to_a_limit():
    now, made = NOW, [GOOD]
    for hours in range(1, 11):
        now = NOW + DAY / 24 * hours
        made.append(renew(made[-1], Renewal.ALL, HOSTS, fresh(now)))
    numbers = [read_certificates(one.authorities)[0].serial_number for one in made]
    kept = [cert.serial_number for cert in read_certificates(made[-1].authorities)]
    assert kept == numbers[::-1][:MAX_AUTHORITIES]
    emptied = renew(Material(), Renewal.ALL, HOSTS, fresh(now), served_bundle=made[-2].authorities)
    assert [cert.serial_number for cert in read_certificates(emptied.authorities)][1:] == numbers[-2::-1][
        : MAX_AUTHORITIES - 1
    ]


def test_cas_of_a_replica_whose_clock_is_ahead_push_no_newer_one_out():
    current = GOOD
    for _ in range(MAX_AUTHORITIES):
        current = renew(current, Renewal.ALL, HOSTS, fresh(NOW + DAY))
    served = renew(current, Renewal.ALL, HOSTS, fresh())
    newest = renew(served, Renewal.ALL, HOSTS, fresh(NOW + DAY))
    assert read_certificates(newest.authorities)[1] == read_certificates(served.authorities)[0]


def test_a_new_ca_leaves_the_one_of_what_is_served_in_the_bundle_however_old():
    current = GOOD
    for _ in range(MAX_AUTHORITIES - 1):
        current = renew(current, Renewal.ALL, HOSTS, fresh())
    newest = renew(current, Renewal.ALL, HOSTS, fresh(), GOOD.authorities)
    assert read_certificates(GOOD.authorities)[0] in read_certificates(newest.authorities)
    assert len(read_certificates(newest.authorities)) == MAX_AUTHORITIES


def test_a_bundle_that_lost_the_ca_of_what_is_served_gets_it_back():
    other = material()
    new = renew(other, Renewal.BUNDLE, HOSTS, fresh(), served_bundle=GOOD.authorities)
    assert new == replace(other, authorities=other.authorities + GOOD.authorities)
    assert renew(new, Renewal.BUNDLE, HOSTS, fresh(), served_bundle=GOOD.authorities) == new
    late = fresh(NOW + 4000 * DAY)
    assert renew(other, Renewal.BUNDLE, HOSTS, late, served_bundle=GOOD.authorities) == other, "it has expired"
    serving = renew(other, Renewal.SERVING, HOSTS, fresh(), served_bundle=GOOD.authorities)
    assert serving.authorities == new.authorities


def test_two_programs_with_different_hosts_come_to_agree():
    first = renew(Material(), Renewal.ALL, ("a",), fresh())
    second = renew(first, decide(first, ("b",), NOW).renewal, ("b",), fresh())
    assert decide(second, ("a",), NOW).renewal is Renewal.NOTHING
    assert decide(second, ("b",), NOW).renewal is Renewal.NOTHING


def made_by_openssl(folder: Path, number: int) -> Material:
    """A CA like that of the Go JobSet but for its serial number, which is 0 there."""
    ca, key = folder / "ca.crt", folder / "ca.key"
    make = f"openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -set_serial {number} -subj /O=jobset/CN=jobset-ca -addext keyUsage=keyCertSign,digitalSignature"
    subprocess.run([*make.split(), "-keyout", str(key), "-out", str(ca)], check=True, capture_output=True)  # noqa: S603 -- a fixed command
    return Material(ca.read_bytes(), key.read_bytes())


NEXT_DAY = NOW + DAY
"""openssl's "now" may be a second after ours."""


def test_an_rsa_ca_with_serial_number_0_as_the_go_jobset_makes_it_is_kept(tmp_path: Path):
    theirs = made_by_openssl(tmp_path, 0)
    decision = decide(theirs, HOSTS, NEXT_DAY)
    assert decision.renewal is Renewal.SERVING
    new = renew(theirs, decision.renewal, HOSTS, fresh(NEXT_DAY))
    assert new.authorities == theirs.authorities
    assert decide(new, HOSTS, NEXT_DAY).renewal is Renewal.NOTHING


def test_a_ca_with_a_negative_serial_number_which_go_does_not_read_is_renewed(tmp_path: Path):
    decision = decide(made_by_openssl(tmp_path, -5), HOSTS, NEXT_DAY)
    assert decision.renewal is Renewal.ALL
    assert decision.reason.startswith("the CA has a negative serial number")


def test_keys_do_not_show_in_what_a_log_would_print():
    assert "PRIVATE" not in repr(
        LiveContext(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate=GOOD.certificate, key=GOOD.key)
    )
    assert "PRIVATE" not in repr(GOOD)

"""Whatever the Secret holds is recognised, named and replaced by something that clients accept."""

from dataclasses import fields, replace

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from certs.decision import decide, decide_and_renew
from certs.handshake import refusal
from certs.material import Material, Renewal
from certs.pki import hosts_of, read_certificates
from tests.support.bad_certificates import BAD, GOOD, OTHER, Bad, chain, der, pem
from tests.support.tls import DAY, HOSTS, NOW, fresh, material

PARTS = [field.name for field in fields(Material)]


def test_what_is_good_is_kept():
    assert decide_and_renew(GOOD, HOSTS, fresh())[1] is GOOD
    theirs = chain()
    assert decide_and_renew(theirs, HOSTS, fresh())[1] is theirs


def test_a_ca_without_key_usage_may_sign():
    """As `openssl req -x509` makes them; RFC 5280 lets such a CA sign, and so does the API server."""
    theirs = chain(authority=[x509.BasicConstraints(ca=True, path_length=None)])
    assert decide_and_renew(theirs, HOSTS, fresh())[1] is theirs
    decision, healed = decide_and_renew(replace(theirs, certificate=b"", key=b""), HOSTS, fresh())
    assert (decision.renewal, healed.authorities) == (Renewal.SERVING, theirs.authorities)
    assert decide(healed, HOSTS, NOW).renewal is Renewal.NOTHING


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_what_is_bad_is_named_and_renewed(bad: Bad):
    decision, healed = decide_and_renew(bad.material, HOSTS, fresh())
    assert decision.renewal is bad.renewal
    assert decision.reason.startswith(bad.reason)
    assert decision.reason
    accepted(healed)


def accepted(healed: Material) -> None:
    """Clients accept it under every name, and nothing is left to renew."""
    for host in HOSTS:
        assert refusal(healed.certificate, healed.key, healed.authorities, host) == ""
    assert decide(healed, HOSTS, NOW).renewal is Renewal.NOTHING


@pytest.mark.parametrize("days", [0, 274, 275, 366, 3559, 3560, 4000, -1])
def test_everything_is_renewed_90_days_before_its_end(days: int):
    renewal = Renewal.NOTHING if 0 <= days < 275 else Renewal.SERVING if 0 <= days < 3560 else Renewal.ALL
    assert decide(GOOD, HOSTS, NOW + days * DAY).renewal is renewal


def damaged(part: str) -> st.SearchStrategy[bytes]:
    """Bytes of a good part, or of another one, with some of them changed, taken out or put in: in the text or below it."""

    def change(content: bytes, places: list[tuple[int, int, bytes]]) -> bytes:
        for place, length, new in places:
            at = place % (len(content) + 1)
            content = content[:at] + new + content[at + length :]
        return content

    text = st.sampled_from([getattr(one, other) for one in (GOOD, OTHER) for other in PARTS])
    places = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 3), st.binary(max_size=3)), max_size=3)
    below = st.builds(
        lambda content, places: pem("CERTIFICATE", change(content, places)),
        st.sampled_from([der(GOOD.authorities), der(GOOD.certificate), der(OTHER.authorities)]),
        places,
    )
    return st.one_of(st.just(getattr(GOOD, part)), st.binary(max_size=200), st.builds(change, text, places), below)


@pytest.mark.no_cover
@given(st.builds(Material, **{part: damaged(part) for part in PARTS}))
def test_no_content_of_the_secret_is_beyond_healing(content: Material):
    _, healed = decide_and_renew(content, HOSTS, fresh())
    accepted(healed)


def test_a_ca_that_openssl_cannot_read_is_not_kept():
    """Its name is not UTF-8, which only some libraries mind. OpenSSL refuses a bundle with it as a whole."""
    name = b"jobset-ca"
    before, between, *rest = der(GOOD.authorities).split(name)
    changed = before + name + between + b"\x00\x00\x80set-ca" + name.join(rest)
    content = replace(GOOD, authorities=pem("CERTIFICATE", changed))
    _, healed = decide_and_renew(content, HOSTS, fresh())
    accepted(healed)


def test_names_that_no_certificate_can_have_are_not_kept():
    old = chain(hosts=[*HOSTS[1:], "other.ns.svc", "*.wild.svc", "a b", "a..b", ".", "-a", "x" * 300, "10.0.0.1"])
    _, healed = decide_and_renew(old, HOSTS, fresh())
    assert hosts_of(read_certificates(healed.certificate)[0]) == [
        "hook.ns.svc", "localhost", "other.ns.svc", "*.wild.svc", "127.0.0.1", "10.0.0.1"
    ]  # fmt: skip


def test_the_names_that_are_kept_have_an_end():
    many = material(hosts=tuple(f"host-{number}" for number in range(500)))
    _, healed = decide_and_renew(many, HOSTS, fresh())
    assert len(hosts_of(read_certificates(healed.certificate)[0])) == len(HOSTS) + 32


@pytest.mark.parametrize(
    "name", ["CA is none", "CA on a curve that Go does not know", "CA may not sign", "CA has expired"]
)
def test_a_ca_that_is_good_for_nothing_is_not_trusted_any_longer(name: str):
    assert len(read_certificates(decide_and_renew(BAD[name].material, HOSTS, fresh())[1].authorities)) == 1


def test_a_ca_whose_key_is_lost_stays_trusted_for_what_it_signed():
    _, healed = decide_and_renew(replace(GOOD, authority_key=b""), HOSTS, fresh())
    assert read_certificates(healed.authorities)[1] == read_certificates(GOOD.authorities)[0]


def test_a_host_that_no_certificate_can_name_is_reported_and_nothing_is_made():
    with pytest.raises(ValueError, match=r"new certificates for \. are of no use"):
        decide_and_renew(GOOD, ["."], fresh())

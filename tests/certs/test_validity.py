"""The end of a certificate's validity, against what the cryptography library reads."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certs.pki import read_certificates
from certs.renewal import self_signed
from certs.validity import not_after
from tests.support.tls import material

PAIR = material()


@given(st.datetimes(datetime.fromisoformat("1991-01-01"), datetime.fromisoformat("2080-01-01"), timezones=st.just(UTC)))
def test_it_is_what_the_library_reads_in_this_and_the_next_half_century(made: datetime):
    pair = material(made.replace(microsecond=0), hosts=("a" * 63 + ".svc", *(f"host-{i}" for i in range(200))))
    for pem in (pair.certificate, pair.authorities, b"text before\n" + pair.certificate + pair.authorities):
        assert not_after(pem) == read_certificates(pem)[0].not_valid_after_utc


def test_of_a_chain_it_is_the_first_one():
    later = material(datetime.now(UTC) + timedelta(days=99)).certificate
    assert not_after(PAIR.certificate + later) == read_certificates(PAIR.certificate)[0].not_valid_after_utc
    assert not_after(self_signed()[0]) == read_certificates(self_signed()[0])[0].not_valid_after_utc.replace(
        microsecond=0
    )


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"rubbish",
        PAIR.key,
        PAIR.certificate[:-40],
        b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n",
        re.sub(rb"(?s)(-----\n.{200}).*(\n-----END)", rb"\1\2", PAIR.certificate),
    ],
)
def test_what_cannot_be_read_is_a_value_error(pem: bytes):
    with pytest.raises(ValueError):
        not_after(pem)

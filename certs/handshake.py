"""Checks by a TLS handshake in memory whether a client would accept a serving certificate.

OpenSSL has many more reasons to refuse a chain than are worth separate checks. The handshake does not check dates,
which the caller checks. It uses no network, and its result depends only on the arguments.
"""

import ssl

from certs.tls import CertificateError, install

NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
"""X509_V_FLAG_NO_CHECK_TIME, for which the ssl module has no name."""

_MAX_ROUNDS = 8
"""Largest number of rounds of the handshake. TLS 1.3 needs two."""


def refusal(certificate: bytes, key: bytes, authorities: bytes, host: str, *, strict: bool = True) -> str:
    """The reason why a client that trusts `authorities` and calls `host` refuses this PEM pair; "" if it accepts it.

    `strict` applies all rules of RFC 5280. The API server also accepts certificates without key identifiers.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.hostname_checks_common_name = False
    # Like the API server, trust a CA that is not self-signed.
    client.verify_flags |= NO_CHECK_TIME | ssl.VERIFY_X509_PARTIAL_CHAIN
    if strict:
        client.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        install(server, certificate, key)
        client.load_verify_locations(cadata=authorities.decode("ascii"))
        _shake_hands(client, server, host)
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except (ssl.SSLError, CertificateError, UnicodeDecodeError) as error:
        return getattr(error, "reason", None) or str(error)
    return ""


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> None:
    """Complete the handshake. Raises ssl.SSLError if one side refuses it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_MAX_ROUNDS):
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
    if sides:
        raise ssl.SSLError("the handshake does not come to an end")

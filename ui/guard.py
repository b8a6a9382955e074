"""Requirements of every request, and headers of every answer.

Only the page that `jobset ui` serves may read the data, and no other page that is open in the same browser.

- The Host header must name a host that the page is served as. Any other name for this machine is refused (DNS
  rebinding).
- Only GET and HEAD are allowed. A request for data by a page of another site is refused.
- The headers of an answer make a browser load nothing from other sites, run no inline script, and show the page in no
  frame.
"""

from collections.abc import Iterable, Mapping

from httpserver.address import Address, ip_of, is_loopback
from httpserver.asgi import App, Message, Receive, Send, respond

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Content-Security-Policy. Its last two directives prevent scripts of the page from turning text into markup."""

HEADERS: Mapping[str, str] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
DATA_PATH = "/api/"


class Guard:
    """An ASGI application in front of `app`. `hosts`: names, without ports, that are allowed beside `LOCAL_HOSTS`."""

    def __init__(self, app: App, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._allowed_hosts = frozenset(host.lower() for host in (*LOCAL_HOSTS, *hosts))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                security_headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                security_names = {name for name, _ in security_headers}
                message["headers"] = [
                    *security_headers,
                    *(pair for pair in message.get("headers", ()) if pair[0] not in security_names),
                ]
            await send(message)

        status, text = self._refusal(scope)
        if status:
            await respond(send_with_headers, status, f"{text}\n")
        else:
            await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Message) -> tuple[int, str]:
        """Status and text of the answer to a refused request; status 0 if the request is allowed."""
        if scope["method"] not in {"GET", "HEAD"}:
            return 405, "this page only shows: GET and HEAD"
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or host_name(hosts[0].decode("latin-1")) not in self._allowed_hosts:
            return 421, "this page is not served as that host; jobset ui --allow-host NAME allows it"
        sites = {value for name, value in scope["headers"] if name == b"sec-fetch-site"}
        if scope["path"].startswith(DATA_PATH) and sites - {b"same-origin", b"none"}:
            return 403, "another site's page asked for this"
        return 0, ""


def host_name(header: str) -> str:
    """The host in a Host header, without the port, in lower case; an IPv6 address keeps its brackets."""
    if header.startswith("["):
        return "".join(header.partition("]")[:2]).lower()
    return header.partition(":")[0].lower()


def browser_host(address: Address) -> str:
    """The host to open in a browser: the loopback address if the server listens on all interfaces."""
    host = address[0] or "127.0.0.1"
    ip = ip_of(host)
    if ip is not None and ip.is_unspecified:
        host = "127.0.0.1" if ip.version == 4 else "::1"
    return f"[{host}]" if ":" in host else host


def exposure_warning(address: Address) -> str:
    """The warning about an address that other machines may reach; empty for a loopback address."""
    host = address[0]
    if is_loopback(host):
        return ""
    ip = ip_of(host)
    location = "on all interfaces" if not host or (ip is not None and ip.is_unspecified) else f"on {host}"
    return (
        f"jobset ui: warning: it listens {location}. Whoever reaches this port from another machine sees what you may"
        " see, and is not asked for a name. Leave out --address to serve this machine only; for others, put a proxy"
        " before it that asks who it is.\n"
    )

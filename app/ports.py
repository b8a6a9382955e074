"""The ports in the settings of a manager, and those that two servers would share. Pure."""

from collections.abc import Iterator, Mapping
from itertools import combinations

from pydantic.alias_generators import to_camel

from app.settings import Settings
from httpserver.address import Address, parse_bind_address

_ALL_HOSTS = {"", "0.0.0.0", "::"}  # noqa: S104 -- compared with, not listened on


def listening_addresses(settings: Settings, *, webhooks: bool) -> dict[tuple[str, str], Address]:
    """The addresses that the manager listens on, by section and name of the setting; not those with a random port."""
    addresses = {("webhook", "port"): (settings.webhook.host, settings.webhook.port)} if webhooks else {}
    for section, name in (("metrics", "bind_address"), ("health", "health_probe_bind_address")):
        if address := parse_bind_address(getattr(getattr(settings, section), name)):
            addresses[section, name] = address
    return {setting: address for setting, address in addresses.items() if address[1]}


def shared_ports(addresses: Mapping[tuple[str, str], Address]) -> Iterator[str]:
    """A line for each two settings that ask for one port of one address."""
    for (setting, (host, port)), (other, (host_of_other, port_of_other)) in combinations(addresses.items(), 2):
        if port == port_of_other and (host == host_of_other or {host, host_of_other} & _ALL_HOSTS):
            names = " and ".join(f"{section}.{to_camel(name)}" for section, name in (setting, other))
            yield f"{names}: both listen on port {port}; give each a port of its own"

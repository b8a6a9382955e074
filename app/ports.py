"""The ports in the settings of a manager, and which of them two servers would share. Pure."""

from collections.abc import Iterator, Mapping
from itertools import combinations

from pydantic.alias_generators import to_camel

from app.settings import Settings
from httpserver.address import Address, parse_bind_address

_ALL_HOSTS = {"", "0.0.0.0", "::"}  # noqa: S104 -- compared with, not listened on


def listening_addresses(settings: Settings, *, webhooks: bool) -> dict[tuple[str, str], Address]:
    """The addresses with a fixed port that the manager listens on, by section and name of the setting."""
    addresses = {("webhook", "port"): (settings.webhook.host, settings.webhook.port)} if webhooks else {}
    for section, name in (("metrics", "bind_address"), ("health", "health_probe_bind_address")):
        if address := parse_bind_address(getattr(getattr(settings, section), name)):
            addresses[section, name] = address
    return {setting: address for setting, address in addresses.items() if address[1]}


def shared_ports(addresses: Mapping[tuple[str, str], Address]) -> Iterator[str]:
    """A line for each two settings that ask for the same port of the same address."""
    for (setting, (host, port)), (other_setting, (other_host, other_port)) in combinations(addresses.items(), 2):
        if port == other_port and (host == other_host or {host, other_host} & _ALL_HOSTS):
            names = " and ".join(f"{section}.{to_camel(name)}" for section, name in (setting, other_setting))
            yield f"{names}: both listen on port {port}; give each a port of its own"

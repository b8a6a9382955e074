"""kubernetes_asyncio's readers of kubeconfigs and in-cluster credentials, without its models of every Kubernetes kind.

The readers need none of the models, yet importing the library's packages imports them all: a third of the program's
memory and a second of its start. So the two packages that do so are entered without running their `__init__`, and the
one class that the readers fill in is ours. Must not be used for anything but credentials.
"""

import importlib.util
import sys
from dataclasses import dataclass, field


@dataclass
class Configuration:
    """What the readers fill in, by the names of the library's own `Configuration`; files are paths."""

    host: str = ""
    ssl_ca_cert: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify_ssl: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None
    api_key: dict[str, str] = field(default_factory=dict)


def _enter(package: str, **names: object) -> None:
    """Make the package's modules importable; of itself it has nothing but `names`."""
    if package in sys.modules:
        return
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise ModuleNotFoundError(f"the package {package} is not installed", name=package)
    module = importlib.util.module_from_spec(spec)
    vars(module).update(names)
    sys.modules[package] = module


_enter("kubernetes_asyncio")
_enter("kubernetes_asyncio.client", Configuration=Configuration, ApiClient=None)

from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config  # noqa: E402 (see above)
from kubernetes_asyncio.config.incluster_config import SERVICE_HOST_ENV_NAME  # noqa: E402 (see above)
from kubernetes_asyncio.config.kube_config import KubeConfigMerger  # noqa: E402 (see above)

__all__ = [
    "SERVICE_HOST_ENV_NAME",
    "ConfigException",
    "Configuration",
    "KubeConfigMerger",
    "load_incluster_config",
    "load_kube_config",
]

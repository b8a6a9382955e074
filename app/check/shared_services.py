"""JobSets of one run of `jobset validate` that share a headless Service: it selects the pods of one only.

Pure; remembers the Services of the JobSets that it was shown.
"""

from api.field import SPEC, ErrorType, FieldError, Path, Rule, Severity
from api.jsontree import dig
from api.meta import JSON

SHARED = Rule(
    "service-shared-in-files",
    ErrorType.DUPLICATE,
    'JobSet "{other}" has the Service {name}, too: it selects only that set\'s pods',
    "choose another spec.network.subdomain",
    "docs/reference/names-and-labels.md#headless-service, defect 23",
    severity=Severity.WARNING,
)
_SUBDOMAIN = SPEC.at("network", "subdomain")
_NAME = Path(("metadata", "name"))


class Services:
    """By namespace and name the JobSet that asked for a Service first."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}

    def shared(self, js: JSON) -> list[FieldError]:
        """A warning if an earlier JobSet of another name asks for the Service of this one, which is defaulted."""
        own, subdomain = dig(js, *_NAME.parts), dig(js, *_SUBDOMAIN.parts)
        name, path = (subdomain, _SUBDOMAIN) if subdomain else (own, _NAME)
        if not isinstance(name, str) or not name or not dig(js, "spec", "network", "enableDNSHostnames"):
            return []
        called = own or f"{dig(js, 'metadata', 'generateName')}*"
        namespace = dig(js, "metadata", "namespace") or ""
        other = self._first.setdefault((namespace, name), called)
        return [] if other == called else [SHARED.at(path, name, other=other, name=name)]

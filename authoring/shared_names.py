"""JobSets of one run of `jobset validate` that share a name or a headless Service.

A Service selects the pods of only one of them.

Pure; remembers the names of earlier JobSets.
"""

from kube.model.field import SPEC, ErrorType, FieldError, Path, Rule, Severity
from kube.model.jsontree import dig
from kube.model.meta import JSON

SHARED = Rule(
    "service-shared-in-files",
    ErrorType.DUPLICATE,
    'JobSet "{other}" has the Service {name}, too: it selects only that set\'s pods',
    "choose another spec.network.subdomain",
    "docs/reference/names-and-labels.md#headless-service, defect 23",
    severity=Severity.WARNING,
)
SAME_NAME = Rule(
    "name-twice-in-file",
    ErrorType.DUPLICATE,
    "the JobSet in line {line} has this name, too: applied after it, this one changes that one, or is refused",
    "give each a name of its own",
    "API: a name is used once in a namespace",
    severity=Severity.WARNING,
)
_SUBDOMAIN = SPEC.at("network", "subdomain")
NAME = Path(("metadata", "name"))


class Names:
    """The line of the first JobSet by file, namespace and name.

    The same name in two files is not a mistake: overlays of one JobSet are alternatives.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, str, str], int] = {}

    def warnings(self, js: JSON, file: str, line: int) -> list[FieldError]:
        """A warning if an earlier JobSet of the file has the same name. `line`: of `js`."""
        name = dig(js, *NAME.parts)
        if not isinstance(name, str) or not name:
            return []
        first = self._first.setdefault((file, str(dig(js, "metadata", "namespace") or ""), name), line)
        return [] if first == line else [SAME_NAME.at(NAME, name, line=first)]


class Services:
    """The first JobSet that uses a Service, by namespace and name."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}

    def warnings(self, js: JSON) -> list[FieldError]:
        """A warning if an earlier JobSet of another name uses the same Service. `js` has its defaults."""
        own, subdomain = dig(js, *NAME.parts), dig(js, *_SUBDOMAIN.parts)
        name, path = (subdomain, _SUBDOMAIN) if subdomain else (own, NAME)
        if not isinstance(name, str) or not name or not dig(js, "spec", "network", "enableDNSHostnames"):
            return []
        called = own or f"{dig(js, 'metadata', 'generateName')}*"
        namespace = dig(js, "metadata", "namespace") or ""
        other = self._first.setdefault((namespace, name), called)
        return [] if other == called else [SHARED.at(path, name, other=other, name=name)]

"""Finds JobSets in one run of `jobset validate` that share a name or a headless Service. Pure.

A headless Service selects the pods of only one JobSet.
"""

from kube.model.field import SPEC, ErrorType, FieldError, Path, Rule, Severity
from kube.model.jsontree import dig
from kube.model.meta import JSON

SHARED_SERVICE = Rule(
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
    """Finds JobSets with the same name and namespace in one file.

    The same name in two files is no mistake, since overlays of one JobSet are alternatives.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, str, str], int] = {}

    def warnings(self, js: JSON, file: str, line: int) -> list[FieldError]:
        """A warning if an earlier JobSet of the file has the same name. `line`: the line of `js`."""
        name = dig(js, *NAME.parts)
        if not isinstance(name, str) or not name:
            return []
        first_line = self._first.setdefault((file, str(dig(js, "metadata", "namespace") or ""), name), line)
        return [] if first_line == line else [SAME_NAME.at(NAME, name, line=first_line)]


class Services:
    """Finds JobSets with different names that use one Service."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}

    def warnings(self, js: JSON) -> list[FieldError]:
        """A warning if an earlier JobSet of another name uses the same Service. `js` has its defaults."""
        jobset_name, subdomain = dig(js, *NAME.parts), dig(js, *_SUBDOMAIN.parts)
        name, path = (subdomain, _SUBDOMAIN) if subdomain else (jobset_name, NAME)
        if not isinstance(name, str) or not name or not dig(js, "spec", "network", "enableDNSHostnames"):
            return []
        user = jobset_name or f"{dig(js, 'metadata', 'generateName')}*"
        namespace = dig(js, "metadata", "namespace") or ""
        first_user = self._first.setdefault((namespace, name), user)
        return [] if first_user == user else [SHARED_SERVICE.at(path, name, other=first_user, name=name)]

"""Rules of policies about images: where they come from, and how they are named. Pure."""

from collections.abc import Iterator

from api.field import ErrorType, FieldError, Path
from policy.judged import Judged, Namespace, Template
from policy.rule_types import ImageRegistries
from policy.rules.words import PolicyRule, declared

HUB = "docker.io"
HUB_NAMES = {"index.docker.io", "registry-1.docker.io"}

REGISTRY = declared(
    "imageRegistries", ErrorType.FORBIDDEN, "images may not come from {registry}", "use an image from {allowed}"
)
DIGEST = declared(
    "imagesByDigest",
    ErrorType.FORBIDDEN,
    "the image is not named by its digest",
    "write {name}@sha256:DIGEST, so that all pods run the same",
)


def images(template: Template) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Each image of a pod, with its place below the pod's spec: of containers, init containers and volumes."""
    for field, i, container in template.containers:
        if image := container.get("image"):
            yield (field, i, "image"), image
    for i, volume in enumerate(template.pod.get("volumes") or ()):
        if image := (volume.get("image") or {}).get("reference"):
            yield ("volumes", i, "image", "reference"), image


def full_name(image: str) -> str:
    """The name with its registry, without tag and digest: `nginx:1` is `docker.io/library/nginx`."""
    name = image.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    name = f"{head}{slash}{tail.partition(':')[0]}"
    host, slash, path = name.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        return f"{HUB}/{name}" if slash else f"{HUB}/library/{name}"
    return f"{HUB}/{path}" if host in HUB_NAMES else name


def image_registries(rule: ImageRegistries, judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """Images may come only from certain registries, or from certain paths in them.

    An image without a registry comes from `docker.io`, and from `docker.io/library` if its name has one part. An entry
    allows what is below it: `registry.example.com/team` allows `registry.example.com/team/trainer`, and not
    `registry.example.com/team-b/trainer`. There are no wildcards. Images of init containers and of volumes are held to
    it, too.
    """
    below = tuple(f"{entry.rstrip('/')}/" for entry in rule.allowed)
    for template in judged.templates:
        for place, image in images(template):
            name = full_name(image)
            if not f"{name}/".startswith(below):
                registry = name.rpartition("/")[0]
                yield REGISTRY.at(_at(template, place), image, registry=registry, allowed=lambda: _listed(rule))


def _listed(rule: ImageRegistries) -> str:
    return " or ".join(rule.allowed)


def images_by_digest(_: bool, judged: Judged, __: Namespace) -> Iterator[FieldError]:
    """Every image has to be named by its digest, so that a restart runs the same program as the first attempt."""
    for template in judged.templates:
        for place, image in images(template):
            if "@" not in image:
                yield DIGEST.at(_at(template, place), image, name=image)


def _at(template: Template, place: tuple[str | int, ...]) -> Path:
    return template.pod_path.at(*place)


RULES = (
    PolicyRule("imageRegistries", (REGISTRY,), image_registries),
    PolicyRule("imagesByDigest", (DIGEST,), images_by_digest),
)

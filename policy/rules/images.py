"""Rules of policies about images: where they come from, and how they are named. Pure."""

from collections.abc import Iterator

from kube.model.field import ErrorType, FieldError, Path
from kube.model.images import full_name
from policy.judged import AGENT_IMAGE, Judged, Namespace, Template
from policy.rule_types import ImageRegistries
from policy.rules.words import PolicyRule, declared, of_containers, of_pods

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


def each_image(judged: Judged) -> Iterator[tuple[Path, str]]:
    """Each image of the pods with the place where it is written; one that every pod gets stands there once."""
    seen: set[Path] = set()
    for template in judged.templates:
        for place, image in images(template):
            path = template.at(*place)
            if path not in seen:
                seen.add(path)
                yield path, image


def image_registries(rule: ImageRegistries, judged: Judged, _: Namespace) -> Iterator[FieldError]:
    """Images may come only from certain registries, or from certain paths in them.

    An image without a registry comes from `docker.io`, and from `docker.io/library` if its name has one part. An entry
    allows what is below it: `registry.example.com/team` allows `registry.example.com/team/trainer`, and not
    `registry.example.com/team-b/trainer`. There are no wildcards. Images of init containers, of volumes and of
    `failurePolicy.agent` are held to it, too. What stands before the first slash is a registry if it has a dot, a colon
    or an upper-case letter, or is `localhost`, as for container runtimes.
    """
    below = tuple(f"{entry.rstrip('/')}/" for entry in rule.allowed)
    for path, image in each_image(judged):
        name = full_name(image)
        if not f"{name}/".startswith(below):
            registry = name.rpartition("/")[0]
            yield REGISTRY.at(path, image, registry=registry, allowed=lambda: _listed(rule))


def _listed(rule: ImageRegistries) -> str:
    return " or ".join(rule.allowed)


def images_by_digest(_: bool, judged: Judged, __: Namespace) -> Iterator[FieldError]:
    """Every image has to be named by its digest, so that a restart runs the same program as the first attempt."""
    for path, image in each_image(judged):
        if "@" not in image:
            yield DIGEST.at(path, image, name=image)


_IMAGES = (*of_containers("image"), *of_pods("volumes[].image.reference"), str(AGENT_IMAGE))

RULES = (
    PolicyRule("imageRegistries", (REGISTRY,), image_registries, reads=_IMAGES),
    PolicyRule("imagesByDigest", (DIGEST,), images_by_digest, reads=_IMAGES),
)

"""Rules of policies about the registries of images, and about their digests. Pure."""

from collections.abc import Iterator
from typing import Annotated

from kube.model import images
from kube.model.field import ErrorType, FieldError, Path
from kube.model.images import full_name
from kube.model.meta import Base, doc
from policy.cel import Cel, CelPath, Index, Root, Writer, cel_path, concat_lists, container_path, pod_path, text, texts
from policy.fields import Word, has_wildcard, list_of
from policy.judged import AGENT_IMAGE, JudgedJobSet, Namespace
from policy.rule import PolicyRule, container_fields, findings_only, pod_fields
from policy.sentences import invalid, sentence

NO_REGISTRY = invalid(
    "registry",
    ErrorType.INVALID,
    "a registry, or a path in one, {what}",
    'write it like "registry.example.com/a"',
)


class ImageRegistries(Base, frozen=True, kw_only=True):
    """Where images may come from."""

    allowed: Annotated[
        tuple[Word, ...],
        list_of("Registries such as registry.example.com, or paths in them such as registry.example.com/team."),
    ]

    def faults(self, path: Path) -> Iterator[FieldError]:
        """A fault for each entry that is empty, or has more than a registry and a path."""
        for i, entry in enumerate(self.allowed):
            extra_part = "scheme" if "://" in entry else "digest" if "@" in entry else ""
            if not extra_part and ":" in entry.partition("/")[2]:
                extra_part = "tag"
            if not has_wildcard(entry) and (extra_part or not entry.strip("/")):
                what = f"has no {extra_part}" if extra_part else "is not empty"
                yield NO_REGISTRY.at(path.at("allowed", i), entry, what=what)


REGISTRY = sentence(
    "imageRegistries", ErrorType.FORBIDDEN, "images may not come from {registry}", "use an image from {allowed}"
)
DIGEST = sentence(
    "imagesByDigest",
    ErrorType.FORBIDDEN,
    "the image is not named by its digest",
    "write {name}@sha256:DIGEST, so that all pods run the same",
)


def _images(judged: JudgedJobSet) -> dict[Path, str]:
    """The images of containers, init containers and volumes by path. The image of the agent has one path."""
    images_by_path: dict[Path, str] = {}
    for template in judged.templates:
        for field, i, container in template.containers:
            if image := container.get("image"):
                images_by_path.setdefault(template.at(field, i, "image"), image)
        for i, volume in enumerate(template.pod.get("volumes") or ()):
            if image := (volume.get("image") or {}).get("reference"):
                images_by_path.setdefault(template.at("volumes", i, "image", "reference"), image)
    return images_by_path


def find_image_registries(rule: ImageRegistries, judged: JudgedJobSet, _: Namespace) -> Iterator[FieldError]:
    """Images may come only from certain registries, or from certain paths in them.

    An image without a registry comes from `docker.io`, and from `docker.io/library` if its name has one part. An entry
    allows the images below its path. So `registry.example.com/team` allows `registry.example.com/team/trainer`, and not
    `registry.example.com/team-b/trainer`. There are no wildcards. Images of init containers, of volumes and of
    `failurePolicy.agent` are checked, too. As for container runtimes, the text before the first slash is a registry if
    it has a dot, a colon or an upper-case letter, or is `localhost`.
    """
    prefixes = tuple(f"{entry.rstrip('/')}/" for entry in rule.allowed)
    for path, image in _images(judged).items():
        name = full_name(image)
        if not f"{name}/".startswith(prefixes):
            registry = name.rpartition("/")[0]
            yield REGISTRY.at(path, image, registry=registry, allowed=lambda: " or ".join(rule.allowed))


def find_images_by_digest(_: bool, judged: JudgedJobSet, __: Namespace) -> Iterator[FieldError]:
    """Every image has to be named by its digest, so that a restart runs the same program as the first attempt."""
    for path, image in _images(judged).items():
        if "@" not in image:
            yield DIGEST.at(path, image, name=image)


_IMAGE_FIELDS = (*container_fields("image"), *pod_fields("volumes[].image.reference"), str(AGENT_IMAGE))


def _sources(root: Root) -> tuple[tuple[Cel, str, CelPath], ...]:
    """The sources of images, each as a CEL list, the CEL of the image in an item `x`, and the path of the image."""
    volume_path = pod_path("x.j", ".volumes", Index("x.k"), ".image.reference")
    agents = f"{root.variable('agents')}.flatten()"
    return (
        (root.variable("containers"), "x.c.?image.orValue('')", container_path(".image")),
        (root.variable("volumes"), "x.v.?image.?reference.orValue('')", volume_path),
        (Cel(f"({agents}.size() == 0 ? [] : [{agents}[0]])"), "x.image", cel_path(str(AGENT_IMAGE))),
    )


# In the CEL, `x` is an item of one of the lists of `_sources`, and `n` the name of an image.
@findings_only
def compile_images_by_digest(_: bool, writer: Writer, root: Root) -> Cel:
    return concat_lists(
        *(
            Cel(
                f"{items}.filter(x, {image} != '' && !{image}.contains('@'))"
                f".map(x, {writer.at(DIGEST, *at, name=Cel(f'string({image})'))})"
            )
            for items, image, at in _sources(root)
        )
    )


def _full_name(image: str) -> str:
    """A CEL list of one item: the name of an image with its registry, without tag and digest.

    It is a list, so that `map` and `filter` can bind the name to a variable.
    """
    untagged = "n.substring(0, n.lastIndexOf('/') + 1) + n.substring(n.lastIndexOf('/') + 1).split(':')[0]"
    host = "n.split('/')[0]"
    is_of_hub = f"!n.contains('/') || !({host} == 'localhost' || {host}.matches({text(images.HOST)}))"
    hub, library = text(f"{images.HUB}/"), text(f"{images.HUB}/{images.LIBRARY}/")
    full = (
        f"({is_of_hub}) ? (n.contains('/') ? {hub} : {library}) + n"
        f" : {host} in {texts(images.HUB_NAMES)} ? {hub} + n.substring(n.indexOf('/') + 1) : n"
    )
    return f"[string({image}).split('@')[0]].map(n, {untagged}).map(n, {full})"


@findings_only
def compile_image_registries(rule: ImageRegistries, writer: Writer, root: Root) -> Cel:
    prefixes = texts(f"{entry.rstrip('/')}/" for entry in rule.allowed)
    registry, allowed = Cel("n.substring(0, n.lastIndexOf('/'))"), " or ".join(rule.allowed)

    def findings_of(items: Cel, image: str, at: CelPath) -> Cel:
        finding = writer.at(REGISTRY, *at, suffix=Cel(f"string({image})"), registry=registry, allowed=allowed)
        disallowed_names = f"{_full_name(image)}.filter(n, !{prefixes}.exists(b, (n + '/').startsWith(b)))"
        return Cel(f"{items}.filter(x, {image} != '').map(x, {disallowed_names}.map(n, {finding})).flatten()")

    return concat_lists(*(findings_of(*source) for source in _sources(root)))


ImageRegistriesRule = Annotated[
    ImageRegistries | None,
    doc("Registries of images."),
    PolicyRule("imageRegistries", (REGISTRY,), find_image_registries, compile_image_registries, reads=_IMAGE_FIELDS),
]
ImagesByDigestRule = Annotated[
    bool,
    doc("Every image has to be named by its digest."),
    PolicyRule("imagesByDigest", (DIGEST,), find_images_by_digest, compile_images_by_digest, reads=_IMAGE_FIELDS),
]

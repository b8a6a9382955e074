"""Rules about images, in CEL. Pure."""

from kube.model import images
from policy.compiled.cel import Cel, Index, Place, Root, Say, added, of_pod, place, text, texts
from policy.compiled.words import Compiled
from policy.judged import AGENT_IMAGE
from policy.rule_types import ImageRegistries
from policy.rules import images as rules

_OF_CONTAINER = "x.c.?image.orValue('')"
_OF_VOLUME = "x.v.?image.?reference.orValue('')"


def _sources(root: Root) -> tuple[tuple[Cel, str, Place], ...]:
    """Where images stand: a list, the image of its item `x`, and the place of that."""
    container = of_pod("x.j", ".", Cel("string(x.f)"), Index("x.k"), ".image")
    volume = of_pod("x.j", ".volumes", Index("x.k"), ".image.reference")
    agents = f"{root.variable('agents')}.flatten()"
    return (
        (root.variable("containers"), _OF_CONTAINER, container),
        (root.variable("volumes"), _OF_VOLUME, volume),
        (Cel(f"({agents}.size() == 0 ? [] : [{agents}[0]])"), "x.image", place(str(AGENT_IMAGE))),
    )


def images_by_digest(_: bool, say: Say) -> Compiled:
    def found(root: Root) -> Cel:
        return added(
            *(
                Cel(
                    f"{items}.filter(x, {image} != '' && !{image}.contains('@'))"
                    f".map(x, {say.at(rules.DIGEST, *at, name=Cel(f'string({image})'))})"
                )
                for items, image, at in _sources(root)
            )
        )

    return Compiled(found)


def _full_name(image: str) -> str:
    """The name with its registry, without tag and digest, as a list of one item: an item may be used twice."""
    untagged = "n.substring(0, n.lastIndexOf('/') + 1) + n.substring(n.lastIndexOf('/') + 1).split(':')[0]"
    host = "n.split('/')[0]"
    of_hub = f"!n.contains('/') || !({host} == 'localhost' || {host}.matches({text(images.HOST)}))"
    hub, library = text(f"{images.HUB}/"), text(f"{images.HUB}/{images.LIBRARY}/")
    full = (
        f"({of_hub}) ? (n.contains('/') ? {hub} : {library}) + n"
        f" : {host} in {texts(images.HUB_NAMES)} ? {hub} + n.substring(n.indexOf('/') + 1) : n"
    )
    return f"[string({image}).split('@')[0]].map(n, {untagged}).map(n, {full})"


def image_registries(rule: ImageRegistries, say: Say) -> Compiled:
    below = texts(f"{entry.rstrip('/')}/" for entry in rule.allowed)
    allowed = " or ".join(rule.allowed)
    registry = Cel("n.substring(0, n.lastIndexOf('/'))")

    def found(root: Root) -> Cel:
        return added(*(elsewhere(*source) for source in _sources(root)))

    def elsewhere(items: Cel, image: str, at: Place) -> Cel:
        finding = say.at(rules.REGISTRY, *at, apart=Cel(f"string({image})"), registry=registry, allowed=allowed)
        others = f"{_full_name(image)}.filter(n, !{below}.exists(b, (n + '/').startsWith(b)))"
        return Cel(f"{items}.filter(x, {image} != '').map(x, {others}.map(n, {finding})).flatten()")

    return Compiled(found)

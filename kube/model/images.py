"""Image references as the kubelet reads them: the grammar of the OCI distribution project, written down here. Pure.

[HOST[:PORT]/]PATH[:TAG][@ALGORITHM:DIGEST]
"""

import re
from functools import lru_cache
from typing import Final

HUB: Final = "docker.io"
"""The registry of an image whose reference names no registry."""
HUB_NAMES: Final = ("index.docker.io", "registry-1.docker.io")
LIBRARY: Final = "library"
"""The folder of an image that names neither a registry nor a folder."""
HOST: Final = "[.:A-Z]"
"""Pattern that distinguishes a host from a folder before the first slash of a name; localhost is a host, too."""
LONGEST_REFERENCE = 600
"""Characters of the longest reference that is parsed. A valid name, tag and digest together are shorter."""
_MAX_NAME = 255
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
_PATH_SEGMENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = re.compile(rf"(?:{_HOST_LABEL}(?:\.{_HOST_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?")
_PATH = re.compile(rf"{_PATH_SEGMENT}(?:/{_PATH_SEGMENT})*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_IS_HOST = re.compile(HOST)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_IMAGE_ID = re.compile(r"[0-9a-f]{64}")


def fault(image: str) -> str:
    """Why a text is not a valid image reference; empty if it is."""
    return "it is too long" if len(image) > LONGEST_REFERENCE else _fault(image)


@lru_cache(256)  # a set has few images, in many containers, and comes again
def _fault(image: str) -> str:
    if "".join(image.split()) != image:
        return "it has a blank in it"
    if _SCHEME.match(image):
        return "it is a URL"
    reference, at, digest = image.partition("@")
    name, colon, tag = _split_tag(reference)
    return (_digest_fault(digest) if at else "") or (_tag_fault(tag) if colon else "") or _name_fault(name)


def host_and_path(image: str) -> tuple[str, str]:
    """Host and path of the name in a reference, which may be invalid; the host is empty if the name has none."""
    name = _split_tag(image.partition("@")[0])[0]
    host, slash, path = name.partition("/")
    return (host, path) if slash and (host == "localhost" or _IS_HOST.search(host)) else ("", name)


def full_name(image: str) -> str:
    """The name with its registry, without tag and digest: `nginx:1` is `docker.io/library/nginx`."""
    host, path = host_and_path(image)
    if host:
        return f"{HUB if host in HUB_NAMES else host}/{path}"
    return f"{HUB}/{path}" if "/" in path else f"{HUB}/{LIBRARY}/{path}"


def stored_name(image: str) -> str:
    """The name under which a container runtime stores an image: with registry and tag, which is `latest` by default."""
    tag = _split_tag(image)[2]
    return f"{full_name(image)}:{tag or 'latest'}"


def likely_reference(image: str) -> str:
    """The valid reference that the author of an invalid one likely meant; empty if there is none."""
    if len(image) > LONGEST_REFERENCE:
        return ""
    plain = _SCHEME.sub("", "".join(image.split()), count=1)
    name, colon, tag = _split_tag(plain.partition("@")[0])
    end = plain[len(name + colon + tag) :]
    guesses = (plain, f"{name.lower()}{colon}{tag}{end}", f"{name.lower()}{end}" if colon and not tag else "")
    return next((guess for guess in guesses if guess and guess != image and not fault(guess)), "")


def _split_tag(text: str) -> tuple[str, str, str]:
    """Name, colon and tag of a reference. A colon before the last slash belongs to a port."""
    path, slash, last_segment = text.rpartition("/")
    name, colon, tag = last_segment.partition(":")
    return path + slash + name, colon, tag


def _tag_fault(tag: str) -> str:
    if not tag:
        return "the tag is missing"
    return "" if _TAG.fullmatch(tag) else f'"{tag}" is not a tag'


def _name_fault(name: str) -> str:
    if _IMAGE_ID.fullmatch(name):
        return "it is an image's id, which no registry serves"
    host, path = host_and_path(name)
    has_upper_case = host != host.lower()
    if host and not _HOST.fullmatch(host):
        return f'"{host}" is not a host of a registry'
    if host and has_upper_case and not ("." in host or ":" in host):
        return f'"{host}", for its upper case, is read as the host of a registry'
    if path != path.lower():
        return "a repository is written in lower case"
    if not _PATH.fullmatch(path) or len(name) > _MAX_NAME:
        return "it is not of the form HOST/PATH:TAG"
    return ""


def _digest_fault(digest: str) -> str:
    algorithm, _, text = digest.partition(":")
    digits = _DIGEST_LENGTHS.get(algorithm)
    if digits is None:
        return f"a digest begins with one of {', '.join(f'{name}:' for name in _DIGEST_LENGTHS)}"
    if not re.fullmatch(rf"[0-9a-f]{{{digits}}}", text):
        return f"a digest of {algorithm} has {digits} digits of 0-9 and a-f"
    return ""

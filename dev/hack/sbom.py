"""`python -m dev.hack.sbom ROOT FOLDER`: write FOLDER/jobset.spdx.json and FOLDER/jobset.cdx.json.

ROOT is the file system of the image. It is an error if its Python packages differ from those of requirements.lock in
name or version. Python and the packages of Debian are read from ROOT. The formats are SPDX 2.3 and CycloneDX 1.6.
"""

import argparse
import email
import os
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import distribution
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from spdx_tools.common.spdx_licensing import spdx_licensing
from spdx_tools.spdx.model.actor import Actor, ActorType
from spdx_tools.spdx.model.document import CreationInfo, Document
from spdx_tools.spdx.model.package import ExternalPackageRef, ExternalPackageRefCategory, Package, PackagePurpose
from spdx_tools.spdx.model.relationship import Relationship, RelationshipType
from spdx_tools.spdx.model.spdx_no_assertion import SpdxNoAssertion
from spdx_tools.spdx.writer.json.json_writer import write_document_to_file

from dev.hack.licences import PROJECT, ROOT, image_distributions, licence

OUR_NAME = PROJECT["project"]["name"]
VERSION = PROJECT["project"]["version"]


@dataclass(frozen=True, slots=True)
class Part:
    """A component of the image. `licence`: the licence in its metadata; empty if only a file in the image states it."""

    purl: PackageURL
    licence: str = ""
    requires: frozenset[str] = frozenset()
    """Names of other Python packages."""

    @property
    def reference(self) -> str:
        """Return its identifier in both documents, which has only letters, digits, dots and dashes."""
        return f"{self.purl.type}-{self.purl.name}".replace("+", "-plus").replace("_", "-")


def locked_versions() -> dict[str, str]:
    """Return the versions in requirements.lock for this Python and system, by name."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line.removesuffix("\\")) for line in lines if line[:1].isalnum()]
    applicable = (
        requirement for requirement in requirements if requirement.marker is None or requirement.marker.evaluate()
    )
    return {
        canonicalize_name(requirement.name): str(requirement.specifier).removeprefix("==") for requirement in applicable
    }


def installed_versions(root: Path) -> dict[str, str]:
    """Return the versions of the Python packages in the image, by name."""
    metadata_of_packages = (
        email.message_from_bytes(path.read_bytes()) for path in root.glob("opt/jobset/*.dist-info/METADATA")
    )
    return {canonicalize_name(metadata["Name"]): metadata["Version"] for metadata in metadata_of_packages}


def python_packages(root: Path) -> list[Part]:
    """Return the packages of the lock file, and our package. Raises SystemExit if the image has other packages."""
    names, versions = image_distributions(), locked_versions()
    locked = {name: versions[name] for name in names} | {OUR_NAME: VERSION}
    installed = installed_versions(root)
    if installed != locked:
        differences = ", ".join(
            f"{name} {installed.get(name, 'missing')}, locked {locked.get(name, 'not at all')}"
            for name in sorted(installed.keys() | locked.keys())
            if installed.get(name) != locked.get(name)
        )
        raise SystemExit(f"{root} does not hold what requirements.lock names: {differences}")
    extras = (text for extra in PROJECT["project"]["optional-dependencies"].values() for text in extra)
    required_names = {name: _required_names(distribution(name).requires or ()) for name in names}
    required_names[OUR_NAME] = _required_names([*PROJECT["project"]["dependencies"], *extras])
    licences = {name: licence(name) for name in names} | {OUR_NAME: PROJECT["project"]["license"]}
    return [
        Part(PackageURL("pypi", None, name, version), licences[name], frozenset(required_names[name] & locked.keys()))
        for name, version in sorted(locked.items())
    ]


def _required_names(requirements: Iterable[str]) -> set[str]:
    parsed = (Requirement(text) for text in requirements)
    return {
        canonicalize_name(requirement.name)
        for requirement in parsed
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    }


def base_packages(root: Path) -> list[Part]:
    """Return Python and the packages of Debian that the image holds; [] if it has no Python of its own."""
    version = root / "usr/share/doc/python/version"
    release = dict(line.split("=", 1) for line in _lines(root / "etc/os-release"))
    distro = {"distro": f"debian-{release['VERSION_ID'].strip(chr(34))}"} if release else {}
    parts = [Part(PackageURL("generic", None, "python", text), "Python-2.0.1") for text in _lines(version)]
    for path in sorted(root.glob("var/lib/dpkg/status.d/*")):
        status = email.message_from_bytes(path.read_bytes())
        qualifiers = distro | {"arch": status["Architecture"]}
        parts.append(Part(PackageURL("deb", "debian", status["Package"], status["Version"], qualifiers)))
    return parts


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def cyclonedx(parts: list[Part], created: datetime) -> Bom:
    licences = LicenseFactory()
    components = {
        part: Component(
            name=part.purl.name,
            version=part.purl.version,
            type=ComponentType.APPLICATION if part.purl.name == OUR_NAME else ComponentType.LIBRARY,
            purl=part.purl,
            bom_ref=part.reference,
            licenses=[licences.make_from_string(part.licence)] if part.licence else [],
        )
        for part in parts
    }
    image = Component(name="jobset", version=f"v{VERSION}", type=ComponentType.CONTAINER, bom_ref="image")
    bom = Bom(components=components.values(), metadata=BomMetaData(component=image, timestamp=created))
    bom.serial_number = _identity(parts)
    bom.register_dependency(image, [components[part] for part in parts if not _is_transitive(part)])
    for part, component in components.items():
        bom.register_dependency(component, [components[other] for other in parts if _requires(part, other)])
    return bom


def spdx(parts: list[Part], created: datetime) -> Document:
    image = Package(
        "SPDXRef-image",
        "jobset",
        SpdxNoAssertion(),
        version=f"v{VERSION}",
        files_analyzed=False,
        license_declared=spdx_licensing.parse(PROJECT["project"]["license"]),
        primary_package_purpose=PackagePurpose.CONTAINER,
    )
    creation_info = CreationInfo(
        "SPDX-2.3",
        "SPDXRef-DOCUMENT",
        "jobset",
        f"urn:uuid:{_identity(parts)}",
        [Actor(ActorType.TOOL, "dev.hack.sbom")],
        created,
    )
    links = [("SPDXRef-DOCUMENT", RelationshipType.DESCRIBES, image.spdx_id)]
    links += [(image.spdx_id, RelationshipType.CONTAINS, f"SPDXRef-{part.reference}") for part in parts]
    links += [
        (f"SPDXRef-{part.reference}", RelationshipType.DEPENDS_ON, f"SPDXRef-{other.reference}")
        for part in parts
        for other in parts
        if _requires(part, other)
    ]
    return Document(
        creation_info, [image, *map(_package, parts)], relationships=[Relationship(*link) for link in links]
    )


def _package(part: Part) -> Package:
    has_known_licence = bool(part.licence) and not spdx_licensing.validate(part.licence).errors
    return Package(
        f"SPDXRef-{part.reference}",
        part.purl.name,
        SpdxNoAssertion(),
        version=part.purl.version,
        files_analyzed=False,
        license_declared=spdx_licensing.parse(part.licence) if has_known_licence else SpdxNoAssertion(),
        license_comment=None if has_known_licence or not part.licence else f"the package says: {part.licence}",
        external_references=[
            ExternalPackageRef(ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", part.purl.to_string())
        ],
    )


def _requires(part: Part, other: Part) -> bool:
    return other.purl.type == "pypi" and other.purl.name in part.requires


def _is_transitive(part: Part) -> bool:
    """Whether the package is installed only because a Python package requires it."""
    return part.purl.type == "pypi" and part.purl.name != OUR_NAME


def _identity(parts: list[Part]) -> uuid.UUID:
    """Return a UUID that depends on the parts alone."""
    return uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(part.purl.to_string() for part in parts))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dev.hack.sbom", description="Write what the image holds.")
    parser.add_argument("root", type=Path, help="the file system of the image")
    parser.add_argument("folder", type=Path, help="where to write")
    options = parser.parse_args(argv)
    created = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC)
    parts = python_packages(options.root) + base_packages(options.root)
    options.folder.mkdir(parents=True, exist_ok=True)
    JsonV1Dot6(cyclonedx(parts, created)).output_to_file(
        str(options.folder / "jobset.cdx.json"), allow_overwrite=True, indent=2
    )
    write_document_to_file(spdx(parts, created.replace(tzinfo=None)), str(options.folder / "jobset.spdx.json"))
    sys.stdout.write(f"{options.folder}: {len(parts)} packages\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What the SBOMs say, and that they are valid documents of their formats."""

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from cyclonedx.model.bom import Bom
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from dev.hack import sbom
from dev.hack.licences import image_distributions

LIBC = "Package: libc6\nStatus: install ok installed\nArchitecture: arm64\nVersion: 2.41-12+deb13u3\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with the locked Python packages, Python 3.11.16, and one package of Debian."""
    locked = sbom.locked_versions()
    for name in image_distributions():
        install(tmp_path / "root", name, locked[name])
    install(tmp_path / "root", "jobset_controller", sbom.VERSION)
    for path, text in {
        "usr/share/doc/python/version": "3.11.16\n",
        "etc/os-release": 'ID=debian\nVERSION_ID="13"\n',
        "var/lib/dpkg/status.d/libc6": LIBC,
    }.items():
        file = tmp_path / "root" / path
        file.parent.mkdir(parents=True)
        file.write_text(text)
    return tmp_path / "root"


def install(root: Path, name: str, version: str) -> None:
    metadata = root / "opt" / "jobset" / f"{name}-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\nAbout: it\n")


@pytest.fixture
def documents(root: Path, tmp_path: Path) -> Path:
    assert sbom.main([str(root), str(tmp_path / "out")]) == 0
    return tmp_path / "out"


def cyclonedx(documents: Path) -> Any:
    return json.loads((documents / "jobset.cdx.json").read_text())


def spdx(documents: Path) -> Any:
    return json.loads((documents / "jobset.spdx.json").read_text())


def test_the_document_of_spdx_is_valid(documents):
    assert validate_full_spdx_document(parse_file(str(documents / "jobset.spdx.json"))) == []


def test_the_document_of_cyclonedx_is_valid(documents):
    folder = resources.files("cyclonedx.schema._res")
    schemas = [
        json.loads(path.read_text(encoding="utf-8")) for path in folder.iterdir() if path.name.endswith(".schema.json")
    ]
    known = {schema["$id"].replace("SNAPSHOT.", ""): schema for schema in schemas if "$id" in schema}
    aliases = [(uri.replace(".schema.json", ".SNAPSHOT.schema.json"), schema) for uri, schema in known.items()]
    registry = jsonschema_rs.Registry([*known.items(), *aliases])
    schema = known["http://cyclonedx.org/schema/bom-1.6.schema.json"]
    validator = jsonschema_rs.validator_for(schema, registry=registry)
    document = cyclonedx(documents)
    validator.validate(document)
    assert not validator.is_valid(document | {"components": [{"name": "without a type"}]})
    assert len(Bom.from_json(document).components) == len(image_distributions()) + 3


def test_both_name_the_same_packages_and_versions(documents):
    one = {each["purl"] for each in cyclonedx(documents)["components"]}
    other = {link["referenceLocator"] for each in spdx(documents)["packages"] for link in each.get("externalRefs", ())}
    assert one == other
    python = {f"pkg:pypi/{name}@{sbom.locked_versions()[name]}" for name in image_distributions()}
    assert python < one
    assert one - python == {
        f"pkg:pypi/jobset-controller@{sbom.VERSION}",
        "pkg:generic/python@3.11.16",
        "pkg:deb/debian/libc6@2.41-12%2Bdeb13u3?arch=arm64&distro=debian-13",
    }


def test_a_package_leads_to_those_that_it_brings(documents):
    links = {each["ref"]: set(each.get("dependsOn", ())) for each in cyclonedx(documents)["dependencies"]}
    assert links["image"] == {"pypi-jobset-controller", "generic-python", "deb-libc6"}
    assert {"pypi-fastapi", "pypi-uvloop"} <= links["pypi-jobset-controller"]
    assert links["pypi-fastapi"] >= {"pypi-starlette", "pypi-pydantic"}
    assert "pypi-starlette" not in links["pypi-pydantic"]
    relations = spdx(documents)["relationships"]
    found = {tuple(each.values()) for each in relations if each["relationshipType"] == "DEPENDS_ON"}
    assert len(found) == sum(len(brought) for ref, brought in links.items() if ref != "image")


def test_licences_are_those_of_the_list(documents):
    packages = {each["name"]: each for each in spdx(documents)["packages"]}
    assert packages["aiohttp"]["licenseDeclared"] == "Apache-2.0 AND MIT"
    assert packages["google-re2"]["licenseDeclared"] == "NOASSERTION", "'BSD License' is not a name that SPDX knows"
    assert packages["google-re2"]["licenseComments"] == "the package says: BSD License"
    assert packages["libc6"]["licenseDeclared"] == "NOASSERTION"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("another version", r"rich 1\.0, locked \d+"),
        ("missing", r"rich missing, locked \d+"),
        ("not locked", r"sneaked-in 2\.0, locked not at all"),
    ],
)
def test_it_is_an_error_if_the_image_holds_anything_else(root, tmp_path, fault, said):
    (rich,) = root.glob("opt/jobset/rich-*/METADATA")
    if fault == "another version":
        rich.write_text(re.sub("Version: .*\n\n", "Version: 1.0\n\n", rich.read_text()))
    if fault == "missing":
        rich.unlink()
    if fault == "not locked":
        install(root, "Sneaked_In", "2.0")
    with pytest.raises(SystemExit, match=said):
        sbom.main([str(root), str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_the_same_parts_give_the_same_bytes(root, documents, tmp_path):
    sbom.main([str(root), str(tmp_path / "again")])
    for name in ("jobset.spdx.json", "jobset.cdx.json"):
        assert (tmp_path / "again" / name).read_bytes() == (documents / name).read_bytes()

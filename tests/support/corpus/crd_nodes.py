"""The nodes of the CRD's schema by path."""

from manifests import crd

VERSION = crd()["spec"]["versions"][0]
ROOT = VERSION["schema"]["openAPIV3Schema"]
CLAIM = "spec.volumeClaimPolicies[].templates[]"


def walk(schema, path=""):
    """Every schema node with its path; `[]` stands for the items of a list, `{}` for the values of a map."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}".lstrip("."))
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from walk(schema["additionalProperties"], f"{path}{{}}")


NODES = dict(walk(ROOT))
OWN = {p: n for p, n in NODES.items() if p and not p.startswith(("spec.replicatedJobs[].template.", CLAIM + "."))}

"""The rules about volumes of a pod and about mounts of containers. Pure."""

from collections.abc import Iterator
from typing import Any

from kube.model.field import FieldError, Path
from kube.model.job_rules.checks import (
    Check,
    duplicate,
    each,
    entries,
    fields,
    file_mode,
    forbidden,
    invalid,
    missing,
    needs,
    not_found,
    number,
    one_of,
    text,
    user_or_group_id,
)
from kube.model.job_rules.forms import file_in_volume, label, label_key, no_parent_folder, relative_path
from kube.model.job_rules.metadata import selector
from kube.model.jsontree import dig
from kube.model.quantity import canonical, parse_quantity
from kube.model.validation import dns1123_subdomain

_KEY_ITEM = fields(needs("key", "path"), path=text(file_in_volume), mode=file_mode, user=user_or_group_id)
_FIELDS_OF_POD = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
# The field paths of pods that the API server knows; each use supports some of them.
_KNOWN_FIELD_PATHS = frozenset(
    {
        *_FIELDS_OF_POD, "spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName",
        "status.phase", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs", "spec.host",
    }
)  # fmt: skip
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_HUGE = ("limits.hugepages-", "requests.hugepages-")
_SIZES = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"


def field_of_pod(*supported: str) -> Check:
    """A fieldRef to one of these fields of the pod."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        if not isinstance(value, dict):
            return
        version, reference = value.get("apiVersion") or "v1", value.get("fieldPath") or ""
        field_path = path.at("fieldPath")
        base, bracket, key = str(reference).partition("['")
        if not reference:
            yield missing(field_path)
        elif version != "v1":
            yield invalid(field_path, reference, f"error converting fieldPath: unsupported pod version: {version}")
        elif bracket and key.endswith("']"):
            if base not in {"metadata.annotations", "metadata.labels"}:
                detail = f"error converting fieldPath: field label does not support subscript: {reference}"
                yield invalid(field_path, reference, detail)
                return
            key = key.removesuffix("']")
            key = key.lower() if base == "metadata.annotations" else key
            yield from (invalid(path, key, complaint) for complaint in label_key(key))
        elif reference not in _KNOWN_FIELD_PATHS:
            yield invalid(field_path, reference, f"error converting fieldPath: field label not supported: {reference}")
        else:
            yield from one_of(*supported)(field_path, "spec.nodeName" if reference == "spec.host" else reference)

    return check


def resource_of_container(*, named: bool) -> Check:
    """A resourceFieldRef; `named`: containerName is required."""

    def check(path: Path, value: Any) -> Iterator[FieldError]:
        if not isinstance(value, dict):
            return
        resource = value.get("resource") or ""
        if named and not value.get("containerName"):
            yield missing(path.at("containerName"))
        elif not resource:
            yield missing(path.at("resource"))
        elif not str(resource).startswith(_HUGE):
            yield from one_of(*_RESOURCES)(path.at("resource"), resource)
        yield from _divisor(path.at("divisor"), str(resource), value.get("divisor"))

    return check


def _divisor(path: Path, resource: str, divisor: Any) -> Iterator[FieldError]:
    if not parse_quantity(divisor):
        return
    step = canonical(divisor)
    kind = resource.partition(".")[2]
    if kind == "cpu" and step not in {"1", "1m"}:
        yield invalid(path, resource, "only divisor's values 1m and 1 are supported with the cpu resource")
    size_name = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(kind)
    size_name = "hugepages" if resource.startswith(_HUGE) else size_name
    if size_name and step not in _SIZES.split(", "):
        yield invalid(path, resource, f"only divisor's values {_SIZES} are supported with the {size_name} resource")


_RESOURCE_OF_NAMED_CONTAINER = resource_of_container(named=True)


def _one_origin(path: Path, value: Any) -> Iterator[FieldError]:
    origins = [key for key in ("fieldRef", "resourceFieldRef") if value.get(key) is not None]
    if not origins:
        yield missing(path, "one of fieldRef and resourceFieldRef is required")
    elif len(origins) > 1:
        yield invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif origins == ["resourceFieldRef"]:
        yield from _RESOURCE_OF_NAMED_CONTAINER(path.at("resourceFieldRef"), value["resourceFieldRef"])


_DOWNWARD_API_ITEM = fields(
    needs("path"),
    _one_origin,
    path=text(file_in_volume),
    fieldRef=field_of_pod(*_FIELDS_OF_POD),
    mode=file_mode,
)


def _token(path: Path, value: Any) -> Iterator[FieldError]:
    seconds = value.get("expirationSeconds")
    if isinstance(seconds, int) and seconds < 600:
        yield invalid(path.at("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes")
    elif isinstance(seconds, int) and seconds > 2**32:
        yield invalid(path.at("expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds")


def _one_projected_kind(path: Path, value: Any) -> Iterator[FieldError]:
    if len([kind for kind in _PROJECTED if value.get(kind) is not None]) > 1:
        yield forbidden(path, "may not specify more than 1 volume type per source")


_PROJECTED = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")


_PROJECTED_SOURCE = fields(
    _one_projected_kind,
    secret=fields(needs("name"), items=each(_KEY_ITEM)),
    configMap=fields(needs("name"), items=each(_KEY_ITEM)),
    downwardAPI=fields(items=each(_DOWNWARD_API_ITEM)),
    serviceAccountToken=fields(needs("path"), _token, path=text(file_in_volume)),
)


def _distinct_files(path: Path, value: Any) -> Iterator[FieldError]:
    """A check of a projected volume: no two sources create the same file."""
    seen: set[str] = set()
    for _, source in entries(value.get("sources")):
        for kind in ("secret", "configMap", "downwardAPI"):
            for _, item in entries(dig(source, kind, "items")):
                file = str(item.get("path") or "")
                if file in seen:
                    source_name = file if kind == "downwardAPI" else dig(source, kind, "name") or ""
                    yield invalid(path, source_name, "conflicting duplicate paths")
                elif file:
                    seen.add(file)


def _size_limit(path: Path, value: Any) -> Iterator[FieldError]:
    if (size := parse_quantity(value)) is not None and size < 0:
        yield forbidden(path, "SizeLimit field must be a valid resource quantity")


def _claim_spec(path: Path, value: Any) -> Iterator[FieldError]:
    if not value.get("accessModes"):
        yield missing(path.at("accessModes"), "at least 1 access mode is required")
    amount = dig(value, "resources", "requests", "storage")
    if amount is None:
        yield missing(path.at("resources", "storage"))
    elif (size := parse_quantity(amount)) is not None and size <= 0:
        yield invalid(path.at("resources", "storage"), amount, "must be greater than zero")


CLAIM = fields(
    _claim_spec,
    accessModes=each(one_of("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod", empty=True)),
    storageClassName=text(dns1123_subdomain),
    volumeMode=one_of("Block", "Filesystem", empty=True),
    selector=selector,
)
"""A check of the spec of a PersistentVolumeClaim."""

_HOST_TYPE = one_of("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_SOURCES: dict[str, Check] = {
    "emptyDir": fields(
        sizeLimit=_size_limit,
        mode=number(lambda mode: 0 <= mode <= 0o1777, "must be a number between 0 and 01777 (octal), both inclusive"),
    ),
    "hostPath": fields(
        needs("path"),
        lambda path, value: _HOST_TYPE(path.at("type"), value.get("type")) if value.get("path") else (),
        path=text(no_parent_folder),
    ),
    "secret": fields(needs("secretName"), defaultMode=file_mode, items=each(_KEY_ITEM)),
    "nfs": fields(
        needs("server", "path"),
        path=text(lambda path: [] if path.startswith("/") else ["must be an absolute path"], empty=True),
    ),
    "persistentVolumeClaim": fields(needs("claimName")),
    "downwardAPI": fields(defaultMode=file_mode, items=each(_DOWNWARD_API_ITEM)),
    "configMap": fields(needs("name"), defaultMode=file_mode, items=each(_KEY_ITEM)),
    "projected": fields(_distinct_files, defaultMode=file_mode, sources=each(_PROJECTED_SOURCE)),
    "csi": fields(needs("driver")),
    "ephemeral": fields(needs("volumeClaimTemplate"), volumeClaimTemplate=fields(needs("spec"), spec=CLAIM)),
}
"""Checks by kind of volume; other kinds are not checked."""
# All kinds in the API server's order: if a volume has several, all but the first are refused.
_KINDS = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk", "portworxVolume",
    "scaleIO", "storageos", "projected", "csi", "ephemeral", "image",
)  # fmt: skip


def _source(path: Path, value: Any) -> Iterator[FieldError]:
    kinds = [kind for kind in _KINDS if value.get(kind) is not None]
    for kind in kinds[1:]:
        yield forbidden(path.at(kind), "may not specify more than 1 volume type")
    if kinds and kinds[0] in _SOURCES:
        yield from _SOURCES[kinds[0]](path.at(kinds[0]), value[kinds[0]])


_VOLUME = fields(needs("name"), _source, name=text(label))


def volumes(path: Path, pod: Any) -> Iterator[FieldError]:
    """A check of the volumes of a pod, and of the mounts of its containers."""
    valid_volumes: dict[str, Any] = {}
    for i, volume in entries(pod.get("volumes")):
        errors, name = list(_VOLUME(path.at("volumes", i), volume)), volume.get("name")
        if name in valid_volumes:
            errors.append(duplicate(path.at("volumes", i, "name"), name))
        if not errors:
            valid_volumes[str(name)] = volume
        yield from errors
    for key in ("initContainers", "containers"):
        for i, container in entries(pod.get(key)):
            yield from _mounts(path.at(key, i), container, valid_volumes)


_MOUNT = fields(
    needs("name", "mountPath"),
    subPath=text(relative_path),
    subPathExpr=text(relative_path),
    mountPropagation=one_of("Bidirectional", "HostToContainer", "None", empty=True),
    recursiveReadOnly=one_of("Disabled", "Enabled", "IfPossible", empty=True),
)


def _mounts(path: Path, container: Any, volumes_by_name: dict[str, Any]) -> Iterator[FieldError]:
    devices = [device for _, device in entries(container.get("volumeDevices"))]
    device_names = {device.get("name") for device in devices}
    device_paths = {device.get("devicePath") for device in devices}
    is_privileged = dig(container, "securityContext", "privileged") is True
    mount_paths: set[Any] = set()
    for i, mount in entries(container.get("volumeMounts")):
        mount_at, name, mount_path = path.at("volumeMounts", i), mount.get("name") or "", mount.get("mountPath") or ""
        yield from _MOUNT(mount_at, mount)
        if name not in volumes_by_name:
            yield not_found(mount_at.at("name"), name)
        if mount_path in mount_paths:
            yield invalid(mount_at.at("mountPath"), mount_path, "must be unique")
        mount_paths.add(mount_path)
        if name in device_names:
            yield invalid(mount_at.at("name"), name, "must not already exist in volumeDevices")
        if mount_path in device_paths:
            yield invalid(mount_at.at("mountPath"), mount_path, "must not already exist as a path in volumeDevices")
        if mount.get("subPath") and mount.get("subPathExpr"):
            yield invalid(
                mount_at.at("subPathExpr"), mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive"
            )
        if mount.get("mountPropagation") == "Bidirectional" and not is_privileged:
            detail = "Bidirectional mount propagation is available only to privileged containers"
            yield forbidden(mount_at.at("mountPropagation"), detail)

"""The command `cluster image`: images for real nodes, without a registry."""

# ruff: noqa: T201 - this command prints its result

import argparse
from pathlib import Path

from dev.cluster import cluster
from dev.cluster.real.load import load_image
from dev.cluster.verbs import Commands, add_cluster_flags, add_verb

IMAGE_EXAMPLES = """examples:
  %(prog)s rootfs trainer:v1            a folder with the files of the image; pods say what to run by `command`
  %(prog)s build/image/oci jobset:v0.1.0     an image layout, as `make image-layout` in a clone writes it
  %(prog)s trainer.tar trainer:v1       an OCI archive, as `buildah push IMAGE oci-archive:trainer.tar` writes it

Pods find it with imagePullPolicy IfNotPresent, which is the default of every tag but latest."""


def add_image(verbs: Commands) -> None:
    parser = add_verb(verbs, "image", "load an image into every real node, without a registry", _image, IMAGE_EXAMPLES)
    add = add_cluster_flags(parser)
    add("source", type=Path, help="a folder with files, an OCI image layout, or an archive of one")
    add("image", help="the name that pods have for it, such as trainer:v1")


def _image(arguments: argparse.Namespace) -> int:
    local_cluster = cluster.get(arguments.name, state_root=arguments.state_dir)
    nodes = load_image(local_cluster.plan, arguments.source, arguments.image)
    print(f"Image {arguments.image} is on {', '.join(nodes)}.")
    return 0

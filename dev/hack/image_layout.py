"""`python -m dev.hack.image_layout ROOT LAYOUT`: write a file system as an image in OCI's layout 1.1.

The image has one layer, and the configuration that the last stage of docker/Dockerfile describes. The same files always
give the same bytes, since times, owners and order of files do not depend on the machine, the user and the time.
"""

import argparse
import io
import json
import os
import re
import shlex
import sys
import tomllib
from pathlib import Path

from dockerfile_parse import DockerfileParser

from dev.cluster.real.image import Image, ImageLayout, Object, time_text

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"


def config_of_last_stage(dockerfile: str, arguments: dict[str, str]) -> Object:
    """Return the `config` of an image that the last stage describes. `arguments`: of the build, such as `VERSION`."""
    parser = DockerfileParser(fileobj=io.BytesIO(dockerfile.encode()), build_args=arguments)
    config: dict[str, str] = {}
    for line in parser.structure:
        config = {} if line["instruction"] == "FROM" else config | {line["instruction"]: line["value"]}
    return {
        "User": config["USER"],
        "ExposedPorts": {f"{port}/tcp": {} for port in shlex.split(config["EXPOSE"])},
        "Entrypoint": json.loads(config["ENTRYPOINT"]),
        "WorkingDir": "/",
        "Labels": dict(parser.labels),
    }


def cut_after(dockerfile: str, target: str) -> str:
    """The text up to the end of the stage `target`, or all of it for "", as `docker build --target` reads it."""
    stages = re.split(r"(?m)^(?=FROM )", dockerfile)
    names = [text.partition("\n")[0].rpartition(" ")[2] for text in stages]
    return "".join(stages[: names.index(target) + 1 if target else None])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dev.hack.image_layout", description="Write an OCI image layout.")
    parser.add_argument("root", type=Path, help="folder with the files of the image")
    parser.add_argument("layout", type=Path, help="folder to write; empty or absent")
    parser.add_argument("--target", default="", help="stage of docker/Dockerfile that describes it (default: the last)")
    options = parser.parse_args(argv)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    arguments = {
        "VERSION": f"v{version}",
        "REVISION": os.environ.get("REVISION", ""),
        "CREATED": time_text(epoch),
        "SOURCE": os.environ.get("SOURCE", ""),
    }
    config = config_of_last_stage(cut_after(DOCKERFILE.read_text(encoding="utf-8"), options.target), arguments)
    image = Image("docker/rootfs.sh image", {"org.opencontainers.image.ref.name": f"v{version}"}, epoch)
    digest = ImageLayout(options.layout).write(options.root, config, image)
    sys.stdout.write(f"{options.layout}: image {digest}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Images of nodes: always built here, each on a base.

`inquest-base:<hash>` is a JRE 17 on Debian, for Kafka's images: built on Debian's image where a registry
answers within seconds, else made from Debian packages by mmdebstrap. `inquest-python:<hash>` is a base with
Python, for programs of this code (`code_image`). The hash covers the recipe: a changed recipe makes a new
image, and an image that exists is used.
"""

import hashlib
import os
import shutil
import tarfile
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING

from core.errors import ClusterError
from core.terminal import say
from harness.containers.engine import explained, install_packages, sdk_errors
from harness.processes.commands import output

if TYPE_CHECKING:
    from docker import DockerClient

RECIPES = Path(__file__).resolve().parents[2] / "docker"
"""Image recipes and the template; the project is run from its source tree."""
BASE = "base"
"""Recipe of the base of Kafka's images."""
SUITE = "bookworm"
DEBIAN_IMAGE = f"debian:{SUITE}-slim"
"""What `docker/base/Dockerfile` builds on."""
PULL_DEADLINE_S = 45.0
BUILD_S = 600.0
"""A registry that is reached delivers the 30 MB of `DEBIAN_IMAGE` well within this."""


def base_tag(recipe: str = BASE) -> str:
    """Tag of a base image, by its recipe as it is now."""
    return f"inquest-{recipe}:{recipe_hash(RECIPES / recipe)}"


def exists(client: "DockerClient", tag: str) -> bool:
    """Whether the engine has an image of this tag."""
    from docker.errors import ImageNotFound

    try:
        client.images.get(tag)
    except ImageNotFound:
        return False
    return True


def build(
    client: "DockerClient",
    tag: str,
    recipe: Path,
    args: dict[str, str],
    folders: Mapping[str, Path] = MappingProxyType({}),
) -> None:
    """Build the recipe folder's Dockerfile. folders: more of its context, by their names there.

    Raises: ClusterError, with the tail of the build's log.
    """
    from docker.errors import BuildError

    with tempfile.TemporaryFile() as context, explained(f"image {tag} could not be built"):
        _write_context(context, recipe, folders)
        try:
            client.images.build(
                fileobj=context, custom_context=True, tag=tag, buildargs=args, rm=True, forcerm=True
            )
        except BuildError as error:
            words = [str(entry.get("stream") or entry.get("error") or "") for entry in error.build_log]
            tail = "\n".join("".join(words).splitlines()[-20:])
            raise ClusterError(
                f"image {tag} could not be built: {error.msg}; the end of the build log:\n{tail}"
            ) from error


def recipe_hash(*recipes: Path) -> str:
    """Of the files of these folders."""
    digest = hashlib.sha256()
    for recipe in recipes:
        # broker.properties is read at start and never part of an image.
        for path in sorted(p for p in recipe.iterdir() if p.name != "broker.properties"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _write_context(file: IO[bytes], recipe: Path, folders: Mapping[str, Path]) -> None:
    with tarfile.open(fileobj=file, mode="w") as tar:
        for path in sorted(recipe.iterdir()):
            tar.add(path, arcname=path.name)
        for name, folder in folders.items():
            tar.add(folder, arcname=name)
    file.seek(0)


def ensure_base(client: "DockerClient", recipe: str = BASE) -> str:
    """Tag of a base image; built where it is missing. recipe: its folder. Raises: ClusterError."""
    tag = base_tag(recipe)
    if exists(client, tag):
        return tag
    if _pulled(client, DEBIAN_IMAGE):
        say(f"building image {tag} on {DEBIAN_IMAGE}")
        try:
            build(client, tag, RECIPES / recipe, {})
            return tag
        except ClusterError as error:
            say(str(error))
            say("falling back to mmdebstrap")
    _bootstrap(client, tag, RECIPES / recipe)
    return tag


def _pulled(client: "DockerClient", image: str) -> bool:
    """Whether the image is here, or comes from a registry before the deadline."""
    if exists(client, image):
        return True
    done: list[bool] = []

    def pull() -> None:
        with suppress(*sdk_errors()):
            client.images.pull(image)
            done.append(True)

    thread = threading.Thread(target=pull, daemon=True)
    thread.start()
    thread.join(PULL_DEADLINE_S)
    return bool(done)


def _bootstrap(client: "DockerClient", tag: str, recipe: Path) -> None:
    """Make the base from Debian packages: no registry is needed.

    Raises: ClusterError, with what is missing or the tail of the log.
    """
    if shutil.which("mmdebstrap") is None:
        if os.geteuid() != 0 or not Path("/etc/debian_version").exists():
            raise ClusterError(
                f"no image registry answers, so {DEBIAN_IMAGE} cannot be pulled, and mmdebstrap is "
                "not installed; give the engine access to a registry, or apt-get install mmdebstrap"
            )
        install_packages(["mmdebstrap"])
    say(f"making image {tag} from Debian packages (mmdebstrap, about half a minute, once)")
    packages = ",".join((recipe / "packages").read_text().split())
    with tempfile.TemporaryDirectory() as work:
        archive = Path(work, "base.tar")
        output(
            ["mmdebstrap", "--variant=minbase", f"--include={packages}", SUITE, str(archive)],
            BUILD_S,
            "mmdebstrap could not make the base image; the end of its log",
            lines=20,
        )
        name, _, version = tag.partition(":")
        client.api.import_image_from_file(str(archive), repository=name, tag=version)

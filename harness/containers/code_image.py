"""The image of programs of this code: nodes of the model, and what runs beside a node (`sidecar`).

`inquest-code:<hash>` has Python, the project's own code and what these programs import. It stands on
`inquest-python:<hash>` (`images`). The packages come from PyPI by pip, for the Python of that base, and are
kept in the cache folder. The hash covers recipes, pins and code: a change makes a new image.
"""

import hashlib
import platform
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from core.programs import program
from core.terminal import say
from harness.containers.images import RECIPES, base_tag, build, ensure_base, exists, recipe_hash
from harness.processes.cache import cache_folder, locked
from harness.processes.commands import output

if TYPE_CHECKING:
    from docker import DockerClient

BASE: Final = "python"
"""Recipe of the base."""
PYTHON: Final = "3.11"
"""Of Debian bookworm."""
PACKAGES: Final = ("crc32c", "kio", "msgspec", "numpy", "pyarrow", "tzdata")
"""What its programs import, in the versions that are installed here; pip adds what they need."""
PLATFORMS: Final = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")
PLACES: Final = (
    *("core", "history", "model", "harness/__init__.py"),
    *("harness/evidence", "harness/processes", "harness/protocol"),
    *("harness/modelled", "harness/wire"),
)
"""The code that its programs import: rooms and parts of them."""
PACKAGE: Final = __name__.removesuffix("harness.containers.code_image")
"""What rooms are inside: "" in the repository; in a wheel a package, with a dot at its end."""
INSTALL_S: Final = 600.0


def ensure_code_image(client: "DockerClient") -> str:
    """Its tag; built where it is missing. Raises: ClusterError."""
    tag = code_tag()
    if exists(client, tag):
        return tag
    with locked("images"):
        if not exists(client, tag):
            libs, base = _packages(), ensure_base(client, BASE)
            say(f"building image {tag}")
            with tempfile.TemporaryDirectory() as folder:
                rooms = Path(folder) / "rooms"
                inside = rooms / PACKAGE.replace(".", "/")
                for path, name in _sources():
                    (inside / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, inside / name)
                build(client, tag, RECIPES / "code", {"BASE": base}, {"libs": libs, "rooms": rooms})
    return tag


def code_tag() -> str:
    """Tag of the image, by recipes, pins and code as they are now."""
    digest = hashlib.sha256(f"{base_tag(BASE)} {recipe_hash(RECIPES / 'code')} {_pins()}".encode())
    for path, name in _sources():
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"inquest-code:{digest.hexdigest()[:12]}"


def _sources() -> list[tuple[Path, str]]:
    """Modules, and their names as paths."""
    parent = RECIPES.parent
    places = [parent / one for one in PLACES]
    found = (path for place in places for path in ([place] if place.is_file() else place.rglob("*.py")))
    return sorted((path, str(path.relative_to(parent))) for path in found)


def _pins() -> list[str]:
    return [f"{name}=={version(name)}" for name in PACKAGES]


def _packages() -> Path:
    """A folder with the packages; downloaded once. Raises: ClusterError."""
    pins = _pins()
    folder = cache_folder() / "code" / hashlib.sha256(f"{PYTHON} {pins}".encode()).hexdigest()[:12]
    if folder.exists():
        return folder
    say("downloading what programs in containers import (pip)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    wheels = [word for one in PLATFORMS for word in ("--platform", f"{one}_{platform.machine()}")]
    only = ["--only-binary=:all:", "--python-version", PYTHON, *wheels]
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        target = Path(work) / "libs"
        command = program("pip", "install", "--quiet", "--disable-pip-version-check")
        output(
            [*command, "--target", str(target), *only, *pins],
            INSTALL_S,
            "packages for programs in containers were not downloaded",
        )
        target.rename(folder)
    return folder

"""The code that Spark's executors on other machines need: the rooms, as one archive for `--py-files`.

Executors import the rooms from the archive, so that a cluster runs the driver's version. The libraries that
the rooms import (numpy, pyarrow, msgspec …) have to be installed there.
"""

import hashlib
import zipfile
from pathlib import Path
from typing import Final

from core.programs import BASE

ROOMS: Final = ("core", "history", "model", "scenarios", "workloads", "nemesis", "checkers", "harness")
LEFT_OUT: Final = ("__pycache__",)
EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that an archive can give a file: the same code makes the same archive."""
ENTRY: Final = '''"""inquest by spark-submit: spark-submit --py-files {archive} {name} check URL."""

from {module} import main

main()
'''
HERE: Final = Path(__file__)


def shipped_already() -> bool:
    """Whether this module comes from an archive itself: `spark-submit` was given one."""
    return not HERE.exists()


def archive(folder: Path) -> Path:
    """Write the archive into a folder; its name has the digest of what it holds. Raises: OSError."""
    inside = HERE.parents[2]
    files = sorted(file for room in ROOMS for file in (inside / room).rglob("*") if _belongs(file))
    if inside != BASE:  # the rooms are parts of an installed package
        files.insert(0, inside / "__init__.py")
    held = {file.relative_to(BASE).as_posix(): file.read_bytes() for file in files}
    digest = hashlib.sha256(b"".join(name.encode() + data for name, data in held.items())).hexdigest()[:12]
    made = folder / f"inquest-{digest}.zip"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in held.items():
            target.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED)
    return made


def package(folder: Path, module: str) -> tuple[Path, Path]:
    """Write what `spark-submit` takes: the archive and the program.

    module: with the function `main` of the command.

    Raises: OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = archive(folder).replace(folder / "inquest.zip")
    program = folder / "inquest_submit.py"
    program.write_text(ENTRY.format(archive=made.name, name=program.name, module=module))
    return made, program


def _belongs(file: Path) -> bool:
    return file.is_file() and not any(part in LEFT_OUT for part in file.parts)

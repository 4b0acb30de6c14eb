"""Kafka's jars of one version, from Maven Central by the Ivy that PySpark ships.

The cache folder keeps them as `kafka/<version>/*.jar`, all of them or none. No fetch uses what another one
got: nothing is known of most jars but where they came from.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Final
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from core.config import RunConfig
from core.errors import ClusterError, ConfigError
from core.systems import DEPLOYMENTS, KAFKA_VERSION, KafkaSection, is_since, line_of, refused_version
from core.terminal import say
from harness.processes.cache import cache_folder, locked

DEADLINE_S = 600.0
RESOLVING: Final = ".resolving-"
"""How the names of folders begin that a fetch works in."""

# The log of a node comes by slf4j-simple; a second binding (3.x brings one) would be taken instead,
# and has no configuration: the log would be empty.
_MODULE = """<ivy-module version="2.0">
  <info organisation="inquest" module="kafka"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="{core}" rev="{version}" conf="default->master,runtime"/>
{beside}
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->master,runtime"/>
    <exclude org="org.slf4j" module="slf4j-reload4j"/>
    <exclude org="org.slf4j" module="slf4j-log4j12"/>
    <exclude org="org.apache.logging.log4j" module="log4j-slf4j-impl"/>
  </dependencies>
</ivy-module>
"""
_BESIDE: Final = """    <dependency org="{org}" name="{name}" rev="{rev}" conf="default->master,runtime"/>"""
DIGESTS: Final = {
    "3.9.1": "b946891fabd6897df12702410ef17c755dfbc0da06bc478d376539d066d56c35",
    "4.3.1": "31f2c64ea56400f9bf2f7e0b39c35d3e49e393116852221bc29ef5f32915de1a",
    "4.4.0": "4860d8e5e88226b7780f92a9440cb70be1dff286f5f5845ecc1dfa1367b9e277",
}
"""`digest` of the jars of versions. Ivy compares what it fetches with sums from the same server only, and of
other versions nothing more is known."""
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"{root}/></resolvers>
</ivysettings>
"""


def jars(version: str) -> Path:
    """The folder with all jars of a Kafka version; resolved and downloaded once.

    Raises: ConfigError: too old, or no version. ClusterError: no such version, no network, no Java.
    """
    if why := refused_version(version):
        raise ConfigError(f"kafka {version}: {why}")
    folder = cache_folder() / "kafka" / version
    with locked("jars"):
        if not folder.exists():
            for left in folder.parent.glob(f"{RESOLVING}*"):  # by a fetch that was killed
                shutil.rmtree(left)
            _resolve(version, folder)
    return folder


def refusal(config: RunConfig) -> str:
    """Why a run cannot have its versions of Kafka, "" = it can: their line is released, or they were
    fetched."""
    its = config.section(KafkaSection)
    deployment = DEPLOYMENTS[its.deployment]
    for version in filter(None, (its.version, its.upgrade)):
        if line_of(version) not in deployment.lines and version not in cached_versions():
            return (
                f"kafka {version}: {deployment.text()}; if a newer one is released, "
                f"`inquest setup --kafka {version}` fetches it, and runs can use it then"
            )
    return ""


def cached_versions() -> list[str]:
    """Versions whose jars are in the cache."""
    folder = cache_folder() / "kafka"
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    return sorted(name for name in names if not name.startswith(RESOLVING))


def java() -> str:
    """Path of the `java` command: JAVA_HOME's, else the one on PATH.

    Raises: ClusterError, where there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None or not Path(found).exists():
        raise ClusterError(
            "no Java found; install a JRE 17 (Debian: apt-get install openjdk-17-jre-headless) "
            "or set JAVA_HOME"
        )
    return found


def _resolve(version: str, folder: Path) -> None:
    runs_jars = java()
    say(f"fetching Kafka {version} from Maven Central (about a minute, once)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=RESOLVING) as work:
        module, settings, libs = (Path(work, "ivy.xml"), Path(work, "settings.xml"), Path(work, "libs"))
        module.write_text(_module(version))
        mirror = _mirror()
        settings.write_text(_SETTINGS.format(root=f" root={quoteattr(mirror)}" if mirror else ""))
        command = [runs_jars, *_proxies(), "-jar", str(_ivy()), "-settings", str(settings)]
        command += ["-cache", str(Path(work, "ivy")), "-ivy", str(module)]
        command += ["-types", "jar", "bundle"]
        command += ["-retrieve", f"{libs}/[artifact]-[revision].[ext]"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise ClusterError(
                f"Kafka {version} was not fetched within {DEADLINE_S:.0f} s; is Maven Central reached?"
            ) from None
        if done.returncode != 0 or not any(libs.glob(f"{_core(version)}-*.jar")):
            raise ClusterError(_why(version, done.stdout + done.stderr))
        if why := _strange(version, libs):
            raise ClusterError(why)
        libs.rename(folder)


def _core(version: str) -> str:
    """The artifact of the broker, which is named for the Scala that it was built with."""
    return "kafka_2.13" if is_since(version, "2.4") else "kafka_2.12"


def _module(version: str) -> str:
    """What Ivy is to resolve: the broker, and its tools; before 1.0 what Java had up to its release 10."""
    beside = ("org.apache.kafka", "kafka-tools", version)
    if not is_since(version, "1.0"):
        beside = ("javax.xml.bind", "jaxb-api", "2.3.1")
    org, name, rev = beside
    return _MODULE.format(
        core=_core(version), version=version, beside=_BESIDE.format(org=org, name=name, rev=rev)
    )


def digest(libs: Path) -> str:
    """Of all jars of a folder and their names."""
    held = hashlib.sha256()
    for jar in sorted(libs.glob("*.jar")):
        held.update(f"{jar.name} {hashlib.sha256(jar.read_bytes()).hexdigest()}\n".encode())
    return held.hexdigest()


def _strange(version: str, libs: Path) -> str:
    """Why the jars of a version are not those that its digest names, "" = they are, or it has none."""
    known, found = DIGESTS.get(version), digest(libs)
    if known in (None, found):
        return ""
    return (
        f"the jars of Kafka {version} that were fetched are not the released ones (SHA-256 {found}, and not "
        f"{known}); "
        "they were thrown away: is INQUEST_MAVEN, or the mirror in Maven's settings, to be trusted?"
    )


def _why(version: str, output: str) -> str:
    unreached = ("Server access error", "UnknownHost", "ConnectException", "timed out", "SSL")
    if f"{_core(version)};{version}: not found" in output and not any(m in output for m in unreached):
        return f"there is no Kafka {version} on Maven Central; give a released version, as {KAFKA_VERSION}"
    return f"Kafka {version} could not be fetched from Maven Central; the end of Ivy's output:\n" + (
        "\n".join(line for line in output.splitlines()[-25:] if line.strip())
    )


def _ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    found = [jar for folder in folders or () for jar in Path(folder, "jars").glob("ivy-*.jar")]
    if not found:
        raise ClusterError("no Ivy jar in PySpark's jars folder; install the project again")
    return found[0]


def _mirror() -> str | None:
    """URL that stands for Maven Central: INQUEST_MAVEN, else the mirror in Maven's own settings."""
    if given := os.environ.get("INQUEST_MAVEN"):
        return given
    settings = Path.home() / ".m2" / "settings.xml"
    try:
        root = ElementTree.parse(settings).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    for mirror in root.iter():
        if mirror.tag.rpartition("}")[2] != "mirror":
            continue
        fields = {child.tag.rpartition("}")[2]: (child.text or "").strip() for child in mirror}
        if set(fields.get("mirrorOf", "").split(",")) & {"central", "*", "external:*"}:
            return fields.get("url")
    return None


def _proxies() -> list[str]:
    """The environment's HTTP proxies, as options of Java."""
    flags = []
    for scheme, url in urllib.request.getproxies().items():
        parts = urllib.parse.urlsplit(url if "//" in url else f"//{url}")
        if scheme in ("http", "https") and parts.hostname:
            flags += [f"-D{scheme}.proxyHost={parts.hostname}", f"-D{scheme}.proxyPort={parts.port or 80}"]
    return flags

"""Images of Kafka's nodes, one per version and deployment, and one for two versions of an upgrade.

`inquest-kafka:<version>-<hash>` adds Kafka's jars to the base (`containers.images`); `inquest-zookeeper` in
place of `inquest-kafka`: for brokers on ZooKeeper, and ZooKeeper itself.
`inquest-upgrade:<version>-<later>-<hash>` has the jars of both: its nodes start the one that `HOME` names.
"""

from typing import TYPE_CHECKING, Final

from core.errors import ConfigError
from core.systems import DEPLOYMENTS, deployment_of, refused_version
from core.terminal import say
from harness.containers.images import BASE, RECIPES, build, ensure_base, exists, recipe_hash
from harness.kafka.jars import jars
from harness.processes.cache import locked

if TYPE_CHECKING:
    from docker import DockerClient

UPGRADE: Final = "upgrade"
"""Recipe of the images with two versions."""
HOME: Final = "/etc/kafka/home"
"""Where the version is that such a node starts, one of `HOMES`; at first there is no such file."""
HOMES: Final = ("/opt/kafka", "/opt/upgrade")
"""Of the first version, and of the later one."""


def ensure_image(client: "DockerClient", version: str, deployment: str = "") -> str:
    """Tag of the image of a Kafka version; built when it is missing. deployment: an entry of `DEPLOYMENTS`,
    "" = as usual for the version.

    Raises: ConfigError: no deployment has the version. ClusterError: unknown version, or the build failed
    (with the tail of its log).
    """
    if not deployment and (why := refused_version(version)):
        raise ConfigError(f"kafka {version}: {why}")
    tag = image_tag(version, deployment)
    if exists(client, tag):
        return tag
    with locked("images"):
        if not exists(client, tag):
            libs = jars(version)
            base = ensure_base(client)
            say(f"building image {tag}")
            build(client, tag, RECIPES / _recipe(version, deployment), {"BASE": base}, {"libs": libs})
    return tag


def ensure_pair(client: "DockerClient", version: str, later: str, deployment: str = "") -> str:
    """Tag of the image of two versions; built when it is missing. Raises: as `ensure_image`."""
    first, second = (ensure_image(client, one, deployment) for one in (version, later))
    tag = f"inquest-{UPGRADE}:{version}-{later}-{_hash(_recipe(version, deployment), UPGRADE)}"
    if exists(client, tag):
        return tag
    with locked("images"):
        if not exists(client, tag):
            say(f"building image {tag}")
            build(client, tag, RECIPES / UPGRADE, {"FROM_IMAGE": first, "TO_IMAGE": second})
    return tag


def image_tag(version: str, deployment: str = "") -> str:
    """Tag of a version's image, by the recipes as they are now. deployment: as `ensure_image` has it."""
    recipe = _recipe(version, deployment)
    return f"inquest-{recipe}:{version}-{_hash(recipe)}"


def _hash(*recipes: str) -> str:
    return recipe_hash(*(RECIPES / recipe for recipe in (BASE, *recipes)))


def _recipe(version: str, deployment: str) -> str:
    return DEPLOYMENTS[deployment or deployment_of(version)].recipe

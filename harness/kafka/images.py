"""Images of Kafka's nodes, one per version and deployment.

`inquest-kafka:<version>-<hash>` adds Kafka's jars to the base (`containers.images`); `inquest-zookeeper` in
place of `inquest-kafka`: for brokers on ZooKeeper, and ZooKeeper itself.
"""

from typing import TYPE_CHECKING

from core.errors import ConfigError
from core.systems import DEPLOYMENTS, deployment_of, refused_version
from core.terminal import say
from harness.containers.images import BASE, RECIPES, build, ensure_base, exists, recipe_hash
from harness.kafka.jars import jars
from harness.processes.cache import locked

if TYPE_CHECKING:
    from docker import DockerClient


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


def image_tag(version: str, deployment: str = "") -> str:
    """Tag of a version's image, by the recipes as they are now. deployment: as `ensure_image` has it."""
    recipe = _recipe(version, deployment)
    return f"inquest-{recipe}:{version}-{recipe_hash(RECIPES / BASE, RECIPES / recipe)}"


def _recipe(version: str, deployment: str) -> str:
    return DEPLOYMENTS[deployment or deployment_of(version)].recipe

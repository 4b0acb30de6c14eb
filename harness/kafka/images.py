"""Images of Kafka's nodes, one per version.

`inquest-kafka:<version>-<hash>` adds Kafka's jars to the base (`containers.images`).
"""

from typing import TYPE_CHECKING

from core.terminal import say
from harness.containers.images import RECIPES, build, ensure_base, exists, recipe_hash
from harness.kafka.jars import jars
from harness.processes.cache import locked

if TYPE_CHECKING:
    from docker import DockerClient


def ensure_image(client: "DockerClient", version: str) -> str:
    """Tag of the image of a Kafka version; built when it is missing.

    Raises: ClusterError: unknown version, or the build failed (with the tail of its log).
    """
    tag = image_tag(version)
    if exists(client, tag):
        return tag
    with locked("images"):
        if not exists(client, tag):
            libs = jars(version)
            base = ensure_base(client)
            say(f"building image {tag}")
            build(client, tag, RECIPES / "kafka", {"BASE": base}, {"libs": libs})
    return tag


def image_tag(version: str) -> str:
    """Tag of a version's image, by the recipes as they are now."""
    return f"inquest-kafka:{version}-{recipe_hash(RECIPES / 'base', RECIPES / 'kafka')}"

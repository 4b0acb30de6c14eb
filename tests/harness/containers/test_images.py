import shutil
from pathlib import Path

import pytest

from harness.containers import images
from harness.containers.images import RECIPES
from harness.kafka import images as kafka_images
from harness.kafka.images import image_tag


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "docker"
    shutil.copytree(RECIPES, copy)
    for module in (images, kafka_images):
        monkeypatch.setattr(module, "RECIPES", copy)
    return copy


def test_tags_name_version_and_recipe(recipes: Path) -> None:
    assert image_tag("4.3.1").startswith("inquest-kafka:4.3.1-")
    assert images.base_tag().startswith("inquest-base:")


def test_a_changed_base_is_another_base_and_another_image(recipes: Path) -> None:
    before = images.base_tag(), image_tag("4.3.1")
    with (recipes / "base" / "packages").open("a") as file:
        file.write("procps\n")
    assert images.base_tag() != before[0]
    assert image_tag("4.3.1") != before[1]


def test_a_changed_entry_point_is_another_image_on_the_same_base(recipes: Path) -> None:
    before = images.base_tag(), image_tag("4.3.1")
    with (recipes / "kafka" / "start.sh").open("a") as file:
        file.write("# more\n")
    assert images.base_tag() == before[0]
    assert image_tag("4.3.1") != before[1]


def test_settings_of_brokers_are_no_part_of_the_image(recipes: Path) -> None:
    before = image_tag("4.3.1")
    with (recipes / "kafka" / "broker.properties").open("a") as file:
        file.write("num.io.threads=3\n")
    assert image_tag("4.3.1") == before


def test_both_ways_to_the_base_start_from_the_same_debian() -> None:
    dockerfile = (RECIPES / "base" / "Dockerfile").read_text()
    assert f"FROM {images.DEBIAN_IMAGE}\n" in dockerfile
    packages = (RECIPES / "base" / "packages").read_text().split()
    assert "openjdk-17-jre-headless" in packages
    assert "iptables" in packages  # for the sidecar


def test_no_python_in_the_folder_that_is_named_like_the_docker_sdk() -> None:
    assert not list(RECIPES.rglob("*.py"))

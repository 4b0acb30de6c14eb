"""Kafka's own definitions of the messages that its logs hold, as `definitions.jsonl` keeps them.

Kafka generates its serializers from JSON files, which its jars contain. `definitions.jsonl` has one of them
a line, without what only people and generators need. The definitions of a newer Kafka read what older ones
wrote: they list the versions of each field. To write the file again, from a folder with Kafka's jars:

    python -m harness.protocol.definitions ~/.cache/inquest/kafka/4.4.0 > harness/protocol/definitions.jsonl

Source: github.com/apache/kafka, Apache License 2.0, © The Apache Software Foundation.
"""

import json
import re
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

CONTROL: Final = (
    *("EndTxnMarker", "KRaftVersionRecord", "LeaderChangeMessage"),
    *("SnapshotFooterRecord", "SnapshotHeaderRecord", "VotersRecord"),
)
"""Messages of type `data` that control records hold."""
ELSEWHERE: Final = re.compile(r"Remote")
"""Messages of logs that this package does not read: tiered storage."""
FOR_OTHERS: Final = frozenset({"about", "entityType", "ignorable", "mapKey", "zeroCopy"})
FILE: Final = Path(__file__).with_name("definitions.jsonl")


class Field(msgspec.Struct, frozen=True, rename="camel"):
    """One field, with the names and words of Kafka's definitions.

    type: such as `int32`, `[]string`, or the name of a structure. versions: of the message that have it,
    such as `1+` or `0-2`; "" = the tagged ones. tag: None = in its place, not among the tagged fields.
    """

    name: str
    type: str
    versions: str = ""
    nullable_versions: str = "none"
    tagged_versions: str = "none"
    tag: int | None = None
    default: str | int | float | bool | None = ""
    fields: tuple["Field", ...] = ()


class Structure(msgspec.Struct, frozen=True, rename="camel"):
    """A structure that several fields of one message share."""

    name: str
    fields: tuple[Field, ...] = ()


class Definition(msgspec.Struct, frozen=True, rename="camel"):
    """One message. api_key: number of its type in its log; None for what control records hold."""

    name: str
    type: str
    valid_versions: str
    flexible_versions: str
    api_key: int | None = None
    fields: tuple[Field, ...] = ()
    common_structs: tuple[Structure, ...] = ()


@cache
def definitions() -> dict[str, Definition]:
    """Every message of the file by its name."""
    decoder = msgspec.json.Decoder(Definition)
    return {one.name: one for one in map(decoder.decode, FILE.read_bytes().splitlines())}


def includes(versions: str, version: int) -> bool:
    """Whether a range of Kafka's definitions (`none`, `3`, `1+`, `0-2`) has this version."""
    if versions in ("none", ""):
        return False
    first, _, last = versions.rstrip("+").partition("-")
    if versions.endswith("+"):
        return version >= int(first)
    return int(first) <= version <= int(last or first)


def condensed(folder: Path) -> list[str]:
    """The lines of the file, from a folder with the jars of one version of Kafka."""
    found: dict[str, str] = {}
    for jar in sorted(folder.glob("kafka*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"common/(message|metadata)/\w+\.json", name):
                    text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                    message = json.loads(text)
                    if _read_here(message["name"], message["type"]):
                        found[message["name"]] = json.dumps(_without(message), separators=(",", ":"))
    return [found[name] for name in sorted(found)]


def _read_here(name: str, kind: str) -> bool:
    if ELSEWHERE.match(name):
        return False
    return name in CONTROL or kind in ("metadata", "coordinator-key", "coordinator-value")


def _without(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without(one) for key, one in value.items() if key not in FOR_OTHERS}
    return [_without(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in condensed(Path(sys.argv[1])))

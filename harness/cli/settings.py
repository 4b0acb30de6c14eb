"""Settings on the command line: `--set name=value`, and those that follow from an application or a cluster of
the user's."""

import json
from pathlib import Path

from core.errors import ConfigError, UsageError
from core.secrets import shown


def setting(text: str) -> tuple[str, object]:
    """A name and its value: JSON where it is JSON, else text. Raises: ConfigError."""
    from core.config import SHORT, RunConfig

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"--set takes name=value, not {shown(text)}")
    try:
        known: object = json.loads(value)
    except RecursionError:
        raise ConfigError(f"--set {shown(name)}: a value that is nested too deeply") from None
    except ValueError:
        return name, value
    field = RunConfig.model_fields.get(name)
    textual = name in SHORT or (field is not None and field.annotation is str)
    if textual and not isinstance(known, str | dict):
        return name, value  # era=0.10 is text, not the number 0.1
    return name, known


def of_application(
    command: str | None, in_: str | None, out: str | None, shown: str | None, *, there: bool
) -> dict[str, object]:
    """Settings of a run of an application. shown: the command that prints effects. there: the file of a
    cluster brings one already, and these options say something else of it.

    Raises: UsageError, ConfigError.
    """
    if (command, in_, out, shown) == (None, None, None, None):
        return {}
    if command is None and not there:
        raise UsageError("--in, --out and --effects are of an application: give --app COMMAND")
    if out is not None and shown is not None:
        raise UsageError("--out and --effects: each says where the output is; give one")
    from harness.clients.application import effects, named

    if command is not None:
        named.PROGRAM.name(command)
    its: dict[str, object] = {} if in_ is None else {"input": in_}
    if shown is not None:
        effects.COMMAND.name(shown)
        its |= {"output": "", "effects": True}
    if out is not None:
        its |= {"output": out, "effects": False}
    return {**({} if there else named.SETTINGS), "app": its}


def of_cluster(file: Path | None, sut: str | None, *, owned: bool) -> dict[str, object]:
    """Settings that a cluster of the user's decides. Raises: UsageError, ConfigError, ClusterError."""
    if file is not None and sut not in (None, "external"):
        raise UsageError(f"--cluster is a cluster of sut=external, and this run has sut={sut}")
    if file is not None:
        name_cluster(file, owned=owned)
    elif owned:
        raise UsageError("--owned says something of a cluster: give --cluster FILE")
    if file is None and sut != "external":
        return {}
    from harness.external import named

    return named.settings()


def name_cluster(file: Path, *, owned: bool) -> None:
    """Name the file, for this process and its children. Raises: ConfigError."""
    from harness.external import named

    named.name(file, owned=owned)

"""Settings on the command line: `--set name=value`."""

import json

from core.errors import ConfigError
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

"""The name under which other programs use Inquest: `from inquest import check` (docs/library.md).

In the repository the rooms lie beside this package; a wheel has them inside it, as `inquest.checkers`,
`inquest.history` … (hatch_build.py), so that no other package's import names are taken.
"""

from checkers import Result, check

__all__ = ["Result", "check"]

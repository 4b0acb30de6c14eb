"""What hooks have to know of a cluster's nodes."""

from collections.abc import Mapping

import msgspec


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """names: of nodes, for hooks; without those that the cluster alone names. controllers: nodes that are
    controllers only. around: variables in the environment of every hook. lacks: hooks that the shorthand
    cannot give here, and why. text: which nodes these are, for people, "" = the file says it.
    """

    names: Mapping[int, str]
    controllers: tuple[int, ...] = ()
    around: Mapping[str, str] = {}
    lacks: Mapping[str, str] = {}
    text: str = ""

"""SASL of admin connections: PLAIN (RFC 4616), and SCRAM with SHA-256 or SHA-512 (RFC 5802)."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from core.cluster import Security
from core.errors import ConfigError

PLAIN: Final = "PLAIN"
HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Hash of each SCRAM mechanism, by Kafka's name."""
LEAST: Final = 4096
"""Iterations: fewer are refused (RFC 5802, RFC 7677)."""

Exchange = Callable[[bytes], bytes]
"""Sends what the client says, and returns what the broker answers."""


class ScramRefused(Exception):
    """The broker does not prove that it knows the password, or says something else than SCRAM."""


@dataclass(frozen=True, slots=True)
class Sasl:
    """Credentials of one user."""

    mechanism: str
    user: str
    password: str = field(repr=False)

    def authenticate(self, exchange: Exchange) -> None:
        """Say all that the mechanism has to say. Raises: Refused; what the exchange raises."""
        if self.mechanism == PLAIN:
            exchange(f"\0{self.user}\0{self.password}".encode())
        else:
            self._scram(exchange, secrets.token_urlsafe(24))

    def _scram(self, exchange: Exchange, nonce: str) -> None:
        """nonce: of this client."""
        name = HASHES[self.mechanism]
        first = f"n={self.user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        challenge = exchange(f"n,,{first}".encode()).decode()
        said = _attributes(challenge)
        if not said.get("r", "").startswith(nonce):
            raise ScramRefused("the broker answers another client's nonce")
        try:
            salt, rounds = base64.b64decode(said["s"]), int(said["i"])
        except (KeyError, ValueError):
            raise ScramRefused("the broker's challenge is not SCRAM's") from None
        if rounds < LEAST:
            raise ScramRefused(f"the broker asks for {rounds} iterations, and {LEAST} is the least")
        salted = _salted(name, self.password, salt, rounds)
        last = f"c=biws,r={said['r']}"
        signed = f"{first},{challenge},{last}".encode()
        key = hmac.digest(salted, b"Client Key", name)
        signature = hmac.digest(hashlib.new(name, key).digest(), signed, name)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        answer = exchange(f"{last},p={base64.b64encode(proof).decode()}".encode()).decode()
        proven = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
        if not hmac.compare_digest(_attributes(answer).get("v", ""), base64.b64encode(proven).decode()):
            raise ScramRefused("the broker does not prove that it knows the password")


@lru_cache(maxsize=64)
def _salted(name: str, password: str, salt: bytes, rounds: int) -> bytes:
    """Takes some ms: each broker has one salt for a user."""
    return hashlib.pbkdf2_hmac(name, password.encode(), salt, rounds)


def _attributes(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}


def sasl(security: Security) -> Sasl | None:
    """The credentials of security settings; None = without SASL.

    Raises: ConfigError, for another mechanism, or without user name and password.
    """
    if not security.protocol.authenticated:
        return None
    given = security.settings
    mechanism = given.get("sasl.mechanism") or given.get("sasl.mechanisms") or "GSSAPI"
    if mechanism != PLAIN and mechanism not in HASHES:
        raise ConfigError(
            f"admin connections speak SASL by {', '.join((PLAIN, *HASHES))} only, not {mechanism}: "
            "set sasl.mechanism to one of these"
        )
    user, password = given.get("sasl.username"), given.get("sasl.password")
    if not user or not password:
        raise ConfigError(f"SASL {mechanism} needs sasl.username and sasl.password")
    return Sasl(mechanism, user, password)

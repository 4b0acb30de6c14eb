"""SCRAM as RFC 7677 has it, and brokers that do not keep it."""

import pytest

from core.cluster import Security, SecurityProtocol
from core.errors import ConfigError
from harness.brokers.admin.sasl import Sasl, ScramRefused, sasl

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
USER = Sasl("SCRAM-SHA-256", "user", "pencil")


def spoken(*answers: str) -> list[str]:
    """What the client says to a broker that answers so."""
    said: list[str] = []

    def exchange(words: bytes) -> bytes:
        said.append(words.decode())
        return answers[len(said) - 1].encode()

    USER._scram(exchange, NONCE)
    return said


def test_the_example_of_rfc_7677() -> None:
    assert spoken(CHALLENGE, PROOF) == [
        f"n,,n=user,r={NONCE}",
        f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    ]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ((CHALLENGE.replace("r=r", "r=x"), PROOF), "another client's nonce"),
        ((CHALLENGE.replace("i=4096", "i=1"), PROOF), "1 iterations"),
        ((f"r={NONCE}x", PROOF), "not SCRAM's"),
        ((f"r={NONCE}x,s=AAAA,i=many", PROOF), "not SCRAM's"),
        ((CHALLENGE, "v=AAAA"), "does not prove"),
        ((CHALLENGE, "e=other-error"), "does not prove"),
    ],
)
def test_a_broker_that_does_not_keep_it_is_refused(answers: tuple[str, str], why: str) -> None:
    with pytest.raises(ScramRefused, match=why):
        spoken(*answers)


def test_a_password_is_not_shown() -> None:
    security = Security(
        protocol=SecurityProtocol.SASL_SSL,
        settings={"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "pencil"},
    )
    made = sasl(security)
    assert made is not None
    assert made.mechanism == "SCRAM-SHA-512"
    assert "pencil" not in repr(made) + repr(security)


def test_another_mechanism_is_refused() -> None:
    settings = {"sasl.mechanism": "OAUTHBEARER", "sasl.username": "u", "sasl.password": "p"}
    with pytest.raises(ConfigError, match="not OAUTHBEARER"):
        sasl(Security(protocol=SecurityProtocol.SASL_SSL, settings=settings))

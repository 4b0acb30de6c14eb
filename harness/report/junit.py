"""The verdict as JUnit XML, which CI systems read.

The file has one test case for each check, for each anomaly class that is forbidden in this run, for each
class that a control expects and for each requirement; two more say whether the cluster recovered and whether
every check decided. A broken claim is a failure, an undecided one is skipped, a crashed check is an error.
"""

import re
from collections.abc import Iterator
from io import BytesIO

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult, SystemOut

from core.systems import UNRECORDED, report_title
from harness.report import repetition, wording
from history.verdict import NOT_RECOVERED, CheckResult, Verdict

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
FINDINGS_MAX = 10
TEXT_MOST = 4000


def render(verdict: Verdict) -> bytes:
    """The whole file."""
    suite = TestSuite(_text(f"inquest {verdict.run}"))
    for key, value in _properties(verdict).items():
        suite.add_property(key, _text(value))
    suite.add_testcases(list(_cases(verdict)))
    repeat = repetition.said("repeat", verdict.config)
    suite.append(SystemOut(_text(f"{verdict.summary}\n{repeat}: {verdict.repro}")))
    root = JUnitXml("inquest")
    root.add_testsuite(suite)
    root.update_statistics()
    file = BytesIO()
    root.write(file, pretty=True)
    return file.getvalue()


def _text(value: str) -> str:
    """The text without the characters that XML cannot hold, cut where it is far too long."""
    return _NOT_XML.sub("\ufffd", value)[:TEXT_MOST]


def _properties(verdict: Verdict) -> dict[str, str]:
    left_out = UNRECORDED if verdict.config.get("imported") is not None else ()
    found: dict[str, str] = {
        "verdict": wording.state(verdict).word,
        "seed": str(verdict.seed),
        "exit_code": str(verdict.exit_code),
        **{
            name: str(verdict.config[name])
            for name in ("workload", "nemesis", "preset", "sut")
            if name in verdict.config
        },
        "system": report_title(verdict.config),
        "repeat": verdict.repro,
    }
    return {name: value for name, value in found.items() if name not in left_out}


def _case(kind: str, name: str, result: FinalResult | None = None, seconds: float = 0.0) -> TestCase:
    case = TestCase(_text(name), f"inquest.{kind}", round(seconds, 3))
    if result is not None:
        case.result = result
    return case


def _failure(message: str, kind: str, text: str = "") -> Failure:
    failure = Failure(_text(message), _text(kind))
    failure.text = _text(text)
    return failure


def _cases(verdict: Verdict) -> Iterator[TestCase]:
    for name, check in verdict.checks.items():
        yield _case("check", name, _check(check), check.seconds)
    for name, anomaly in wording.forbidden(verdict).items():
        sentences = [example.sentence for example in anomaly.examples if not example.allowed]
        message = f"{wording.findings(anomaly)}. {(sentences or [anomaly.meaning])[0]}"
        if anomaly.known_bug:
            message = f"known bug {anomaly.known_bug}: {message}"
        text = "\n".join([anomaly.meaning, anomaly.why, *sentences[:FINDINGS_MAX]])
        yield _case("anomaly", name, _failure(message, name, text))
    for name, found in verdict.expect.items():
        missed = _failure(f"the checks did not find {name}, which this control expects", "control")
        yield _case("control", name, None if found else missed)
    for one in verdict.requirements:
        missed = _failure(f"{one.text}: {one.why}", "requirement")
        yield _case("requirement", one.text, None if one.met else missed)
    yield _case("run", "recovered", _recovered(verdict))
    yield _case("run", "decided", _decided(verdict))


def _check(check: CheckResult) -> FinalResult | None:
    if check.status == "invalid":
        return _failure(check.why or f"does not hold: {check.claim}", "check", check.claim)
    if check.status == "crashed":
        error = Error(_text(check.why or "the check crashed"), "crash")
        error.text = _text(check.claim)
        return error
    if check.status in ("unknown", "unasked", "permitted"):
        return Skipped(_text(check.why or "the check could not decide"))
    return None


def _recovered(verdict: Verdict) -> FinalResult | None:
    if verdict.recovered is None and verdict.config.get("imported") is not None:
        return Skipped("no import says whether the cluster recovered")
    if verdict.recovered is None:
        return Skipped(
            "whether the cluster recovered is not known: the run ended before, or another one answered, or"
            " its broker did not start, for which it need not be to blame"
        )
    if not verdict.recovered:
        return _failure(wording.NOT_BACK.meaning, NOT_RECOVERED)
    return None


def _decided(verdict: Verdict) -> FinalResult | None:
    reasons = wording.undecided(verdict)
    if verdict.interrupted:
        reasons.insert(0, "the run was interrupted before its end")
    if verdict.valid == "unknown" and not reasons:
        reasons.append("the verdict is unknown")
    return Skipped(_text("; ".join(reasons))) if reasons else None

"""The verdict as JUnit XML, for continuous integration.

One test case a check, one a class of anomaly that is forbidden here, one an expected class (controls),
and two of the run: that it recovered, and that all was decided. Broken = failure, undecided = skipped,
crashed = error.

Not here: the report for people (`page`).
"""

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from harness.report import words
from harness.verdict import CheckResult, Verdict

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
FINDINGS_MAX = 10
TEXT_MOST = 4000


def render(verdict: Verdict) -> bytes:
    """The whole file."""
    cases = list(_cases(verdict))
    counts = {
        kind: str(sum(case.find(tag) is not None for case in cases))
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    seconds = f"{sum(check.seconds for check in verdict.checks.values()):.3f}"
    totals = {"tests": str(len(cases)), **counts, "time": seconds}
    name = _text(f"inquest {verdict.run}")
    root = ET.Element("testsuites", {"name": "inquest", **totals})
    suite = ET.SubElement(root, "testsuite", {"name": name, **totals})
    properties = ET.SubElement(suite, "properties")
    for key, value in _properties(verdict).items():
        ET.SubElement(properties, "property", {"name": key, "value": _text(value)})
    suite.extend(cases)
    ET.SubElement(suite, "system-out").text = _text(f"{verdict.summary}\n{verdict.repro}")
    ET.indent(root)
    data: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _text(value: str) -> str:
    """The text without the characters that XML cannot hold, cut where it is far too long."""
    return _NOT_XML.sub("\ufffd", value)[:TEXT_MOST]


def _properties(verdict: Verdict) -> dict[str, str]:
    return {
        "verdict": words.state(verdict).word,
        "seed": str(verdict.seed),
        "exit_code": str(verdict.exit_code),
        **{
            name: str(verdict.config[name])
            for name in ("workload", "nemesis", "preset", "sut", "kafka")
            if name in verdict.config
        },
        "repeat": verdict.repro,
    }


def _case(kind: str, name: str, seconds: float = 0.0) -> ET.Element:
    return ET.Element(
        "testcase",
        {"classname": f"inquest.{kind}", "name": _text(name), "time": f"{seconds:.3f}"},
    )


def _mark(case: ET.Element, tag: str, message: str, kind: str = "", text: str = "") -> ET.Element:
    mark = ET.SubElement(case, tag, {"message": _text(message)})
    if kind:
        mark.set("type", _text(kind))
    if text:
        mark.text = _text(text)
    return case


def _cases(verdict: Verdict) -> Iterator[ET.Element]:
    for name, check in verdict.checks.items():
        yield _check(name, check)
    for name, anomaly in words.forbidden(verdict).items():
        sentences = [example.sentence for example in anomaly.examples if not example.allowed]
        message = f"{words.findings(anomaly)}. {(sentences or [anomaly.meaning])[0]}"
        if anomaly.known_bug:
            message = f"known bug {anomaly.known_bug}: {message}"
        yield _mark(
            _case("anomaly", name), "failure", message, name,
            "\n".join([anomaly.meaning, anomaly.why, *sentences[:FINDINGS_MAX]]),
        )  # fmt: skip
    for name, found in verdict.expect.items():
        case = _case("control", name)
        if not found:
            _mark(case, "failure", f"this control had to find {name} and did not", "control")
        yield case
    yield _recovered(verdict)
    yield _decided(verdict)


def _check(name: str, check: CheckResult) -> ET.Element:
    case = _case("check", name, check.seconds)
    if check.status == "invalid":
        _mark(case, "failure", check.why or f"does not hold: {check.claim}", "check", check.claim)
    elif check.status == "crashed":
        _mark(case, "error", check.why or "the check crashed", "crash", check.claim)
    elif check.status == "unknown":
        _mark(case, "skipped", check.why or "could not be decided")
    return case


def _recovered(verdict: Verdict) -> ET.Element:
    case = _case("run", "recovered")
    if verdict.recovered is None:
        _mark(case, "skipped", "the run did not get as far as recovery")
    elif not verdict.recovered:
        _mark(case, "failure", words.NOT_BACK.meaning, words.NOT_RECOVERED)
    return case


def _decided(verdict: Verdict) -> ET.Element:
    case = _case("run", "decided")
    reasons = words.undecided(verdict)
    if verdict.interrupted:
        reasons.insert(0, "the run was interrupted before its end")
    if verdict.valid == "unknown" and not reasons:
        reasons.append("the verdict is unknown")
    if reasons:
        _mark(case, "skipped", "; ".join(reasons))
    return case

"""The page: everything the report shows, poured into one HTML file.

The file loads nothing: style, scripts, figures and plotly.js (deflated) are in it, and its content
security policy forbids all else; only the scripts with the listed hashes run. Verdict, witnesses and a
plain timeline are markup, so they need no script.

Not here: what things mean (`words`, the verdict), numbers (`timeline`), drawings (`figures`, `static`).
"""

import base64
import hashlib
import zlib
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from harness.events import FaultFailed, Note, Recovered, WorkerLost
from harness.report import (
    choice,
    colours,
    figures,
    liveness,
    logs,
    static,
    traced,
    transactions,
    words,
)
from harness.report import timeline as timelines
from harness.report.inputs import Inputs, ReportError
from harness.verdict import Example, Fault

BYTES_MAX = 3_900_000
"""Most bytes of a report; examples are left out, and counted, where there are too many."""
EXAMPLES = (25, 10, 5, 2, 1, 0)
FAULTS_MAX = 300
NOTES_MAX = 200
STALLS_MAX = 40
TEXT_MOST = 1500


def render(inputs: Inputs) -> bytes:
    """The whole file, at most `BYTES_MAX` bytes.

    Raises: ReportError, where even a report without examples is larger.
    """
    context = _context(inputs)
    template = _environment().get_template("report.html.j2")
    for most in EXAMPLES:
        data = template.render(**context, examples_most=most).encode()
        if len(data) <= BYTES_MAX:
            return data
    raise ReportError(
        f"{inputs.verdict.run}: the report would be {len(data) / 1e6:.1f} MB even without examples; "
        "see verdict.json"
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("harness.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=words.number, moment=words.moment, plain=words.plain, ms=words.ms, sentence=words.sentence,
        value=words.value, clip=clip,
        safe_colour=colours.safe, ink_on=lambda colour: colours.ink_on(colours.safe(colour)),
        safe_url=safe_url,
    )  # fmt: skip
    environment.globals.update(count=words.count, findings=words.findings, hit=words.hit)
    return environment


def clip(value: str, most: int = TEXT_MOST) -> str:
    """A text from outside, cut where it is far too long to be read."""
    return value if len(value) <= most else f"{value[:most]}… ({len(value)} characters)"


def safe_url(url: str) -> str:
    """The address if it is plain http(s), else ""."""
    parts = urlsplit(url)
    return url if parts.scheme in ("http", "https") and parts.netloc else ""


def _context(inputs: Inputs) -> dict[str, Any]:
    verdict = inputs.verdict
    timeline = timelines.build(inputs)
    return {
        **_records(inputs),
        **_traced(inputs),
        "inputs": inputs,
        "verdict": verdict,
        "state": words.state(verdict),
        "contradiction": words.contradiction(verdict),
        "tested": words.tested(verdict.config),
        "anomalies": words.ranked(verdict),
        "undecided": words.undecided(verdict),
        "held": words.held(verdict),
        "throughput": throughput(timeline),
        "timeline": timeline,
        "drawing": static.timeline(timeline),
        "cluster": timeline.cluster,
        "cluster_drawing": static.cluster(timeline),
        "cluster_key": static.cluster_key(timeline.cluster),
        "liveness": liveness.rows(verdict),
        "stalls_most": STALLS_MAX,
        "witness": lambda example: static.witness(example, in_force(example, verdict.faults)),
        "in_force": lambda example: in_force(example, verdict.faults),
        "faults": sorted(verdict.faults, key=lambda fault: (fault.begin_s, fault.fault)),
        "faults_most": FAULTS_MAX,
        "notes": _notes(inputs),
        "notes_most": NOTES_MAX,
        "strip_width": static.WIDTH,
        "strip_height": static.HEIGHT,
        **_assets(timeline),
    }


def _records(inputs: Inputs) -> dict[str, Any]:
    """The logs and transactions around findings, by class and position of the example."""
    found, timelines_of = logs.build(inputs), transactions.build(inputs)
    faults = inputs.verdict.faults

    def drawn(key: choice.Key) -> static.Drawing | None:
        timeline = timelines_of.shown.get(key)
        return static.transactions(timeline, faults) if timeline else None

    return {
        "log_of": found.shown.get,
        "same_log": found.same.get,
        "log_missing": found.missing.__contains__,
        "logs_most": logs.TABLES_MAX,
        "transactions_of": timelines_of.shown.get,
        "same_transactions": timelines_of.same.get,
        "transactions_drawn": drawn,
    }


def _traced(inputs: Inputs) -> dict[str, Any]:
    """Messages and states around findings, and where they stand, by class and position of the example."""
    scenes = traced.build(inputs)
    return {
        "scenes": scenes,
        "scene_of": {scene.key: n for n, scene in enumerate(scenes, 1) if scene.key}.get,
    }


def in_force(example: Example, faults: list[Fault]) -> list[Fault]:
    """The faults that the witness names, in order of time."""
    named = set(example.faults)
    return sorted((f for f in faults if f.fault in named), key=lambda f: (f.begin_s, f.fault))


def throughput(timeline: timelines.Timeline) -> list[tuple[str, str]]:
    """Numbers of the whole run: term and description."""
    if not timeline.kinds or timeline.rates is None:
        return []
    kinds, edges = timeline.kinds, timeline.rates.edges
    seconds = float(edges[-1] - edges[0])
    ops = {name: sum(getattr(row, name) for row in kinds) for name in ("ok", "fail", "info")}
    aborts = sum(row.aborts for row in kinds)
    total = sum(ops.values()) + aborts
    parts = [f"{words.number(ops['ok'])} ok", f"{words.number(ops['fail'])} failed",
             f"{words.number(ops['info'])} unknown"]  # fmt: skip
    if aborts:
        parts.append(f"{words.number(aborts)} deliberately aborted")
    rows = [("Ops", f"{words.number(total)}: {', '.join(parts)}")]
    for term, name in (("Written", "written"), ("Read", "read")):
        many = sum(getattr(row, name) for row in kinds)
        mean = words.number(many / seconds)
        rows.append((term, f"{words.number(many)} records by ok ops, on average {mean} per second"))
    return rows


def _notes(inputs: Inputs) -> list[tuple[float, str, str]]:
    """What the harness noted: (seconds, kind, text)."""
    found: list[tuple[float, str, str]] = []
    for event in inputs.events:
        at = inputs.seconds(event.ns)
        match event:
            case FaultFailed():
                found.append((at, "fault not made", f"{event.name}: {event.why}"))
            case WorkerLost():
                found.append((at, "worker lost", f"slot {event.slot}: {event.why}"))
            case Note():
                kind = "recording incomplete" if event.incomplete else "note"
                found.append((at, kind, event.text))
            case Recovered(recovered=True):
                found.append((at, "recovered", f"after {event.seconds:.1f} s"))
            case Recovered():
                found.append((at, "not recovered", f"after {event.seconds:.1f} s: {event.why}"))
            case _:
                pass
    return found


def _assets(timeline: timelines.Timeline) -> dict[str, Any]:
    """Style, scripts and figures; and the policy that lets only them run."""
    source = files("harness.report")
    style = source.joinpath("report.css").read_text(encoding="utf-8")
    script = source.joinpath("report.js").read_text(encoding="utf-8")
    drawn = figures.build(timeline)
    plotly, digests = Markup(), [_digest(script)]
    if drawn:
        plotly, digest = _plotly()
        digests.append(digest)
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    return {
        "style": Markup(style),
        "script": Markup(script),
        "plotly": plotly,
        "figures": embedded(drawn),
        "policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; "
        f"script-src {hashes}; base-uri 'none'; form-action 'none'",
    }


@cache
def _plotly() -> tuple[Markup, str]:
    """plotly.js, deflated, as text; and the digest of what comes out of it."""
    code = get_plotlyjs()
    return Markup(base64.b64encode(zlib.compress(code.encode(), 9)).decode()), _digest(code)


def _digest(code: str) -> str:
    return base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


def embedded(value: object) -> Markup:
    """JSON that can stand in a `<script>`: no character in it can end the element or open another."""
    data = msgspec.json.encode(value).decode()
    for character in "<>&":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return Markup(data)

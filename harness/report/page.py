"""The page: everything that the report shows, in one HTML file.

The file loads nothing. It contains style, scripts, figures and plotly.js (deflated); its content security
policy allows only the scripts whose hashes it lists. Verdict, findings and a plain timeline are markup, so
they need no script. Templates compute nothing: `report` is the page, `example` one example of a finding,
`spacetime` messages and states, `parts` what these share.
"""

import base64
import hashlib
import zlib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from urllib.parse import urlsplit

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from core.errors import InquestError
from harness.report import colours, strips, wording
from harness.report.evidence import log_table, transactions
from harness.report.inputs import Inputs
from harness.report.messages import section
from harness.report.timeline import cluster_figures, figures
from harness.report.timeline import numbers as timelines
from history.events import FaultFailed, Interrupted, Note, Recovered, WorkerLost
from history.verdict import Example, Fault, FaultLiveness, Verdict

BYTES_MAX = 3_900_000
"""Most bytes of a report. It says how many examples it leaves out."""
MARGIN = 50_000
"""Bytes for what the page says about messages and examples."""
FAULTS_MAX = 300
NOTES_MAX = 200
STALLS_MAX = 40
TEXT_MOST = 1500


def render(inputs: Inputs) -> bytes:
    """The whole file, at most `BYTES_MAX` bytes: messages and examples fill the room that is left.

    Raises: InquestError where even a report without examples is larger.
    """
    environment, verdict = _environment(), inputs.verdict
    context = _context(inputs)
    page = environment.get_template("report.html.j2")
    bare = len(page.render(**context, messages="", examples={}).encode())
    if bare > BYTES_MAX:
        raise InquestError(
            f"{verdict.run}: the report would be {bare / 1e6:.1f} MB even without examples; see verdict.json"
        )
    room = BYTES_MAX - MARGIN - bare
    messages = Markup()
    if context["scenes"]:
        messages = Markup(environment.get_template("spacetime.html.j2").render(context))
        messages = messages if len(messages.encode()) <= room else Markup()
        room -= len(messages.encode())
    context["messages"] = messages
    template = environment.get_template("example.html.j2")
    example_of: Callable[..., Markup] = vars(template.make_module(context))["example_of"]
    numbers = {name: number for number, (name, _) in enumerate(wording.ranked(verdict), 1)}
    examples: dict[str, list[Markup]] = {name: [] for name in numbers}
    for (name, number), example in wording.in_turn(verdict):
        piece = example_of(name, verdict.anomalies[name], numbers[name], number, example)
        room -= len(piece.encode())
        if room < 0:
            break
        examples[name].append(piece)
    return page.render(**context, examples=examples).encode()


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("harness.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=wording.number,
        moment=wording.moment,
        plain=wording.plain,
        ms=wording.ms,
        sentence=wording.sentence,
        value=wording.value,
        clip=clip,
        safe_colour=colours.safe,
        ink_on=lambda colour: colours.ink_on(colours.safe(colour)),
        safe_url=safe_url,
    )
    environment.globals.update(count=wording.count, findings=wording.findings, hit=wording.hit)
    return environment


def clip(value: str, most: int = TEXT_MOST) -> str:
    """A text from outside, cut where it is far too long to be read."""
    return value if len(value) <= most else f"{value[:most]}… ({len(value)} characters)"


def safe_url(url: str) -> str:
    """The address if it is plain http(s), else ""."""
    parts = urlsplit(url)
    return url if parts.scheme in ("http", "https") and parts.netloc else ""


def _context(inputs: Inputs) -> dict[str, object]:
    verdict = inputs.verdict
    timeline, scenes = timelines.build(inputs), section.build(inputs)
    return {
        "logs": log_table.build(inputs),
        "logs_most": log_table.TABLES_MAX,
        "transactions": transactions.build(inputs),
        "transactions_drawn": lambda found: strips.transactions(found, verdict.faults),
        "scenes": scenes,
        "scene_of": {scene.key: n for n, scene in enumerate(scenes, 1) if scene.key}.get,
        "inputs": inputs,
        "verdict": verdict,
        "state": wording.state(verdict),
        "contradiction": wording.contradiction(verdict),
        "tested": wording.tested(verdict.config),
        "anomalies": wording.ranked(verdict),
        "undecided": wording.undecided(verdict),
        "held": wording.held(verdict),
        "throughput": throughput(timeline),
        "timeline": timeline,
        "drawing": strips.timeline(timeline),
        "cluster": timeline.cluster,
        "cluster_drawing": strips.cluster(timeline),
        "cluster_key": strips.cluster_key(timeline.cluster),
        "liveness": costs(verdict),
        "stalls_most": STALLS_MAX,
        "witness": lambda example: strips.witness(example, in_force(example, verdict.faults)),
        "in_force": lambda example: in_force(example, verdict.faults),
        "faults": sorted(verdict.faults, key=lambda fault: (fault.begin_s, fault.fault)),
        "faults_most": FAULTS_MAX,
        "notes": _notes(inputs),
        "notes_most": NOTES_MAX,
        "strip_width": strips.WIDTH,
        "strip_height": strips.HEIGHT,
        **_assets(timeline),
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
    parts = [
        f"{wording.number(ops['ok'])} ok",
        f"{wording.number(ops['fail'])} failed",
        f"{wording.number(ops['info'])} unknown",
    ]
    if aborts:
        parts.append(f"{wording.number(aborts)} deliberately aborted")
    rows = [("Ops", f"{wording.number(total)}: {', '.join(parts)}")]
    for term, name in (("Written", "written"), ("Read", "read")):
        many = sum(getattr(row, name) for row in kinds)
        mean = wording.number(many / seconds)
        rows.append((term, f"{wording.number(many)} records by ok ops, on average {mean} per second"))
    return rows


def costs(verdict: Verdict) -> list[tuple[Fault, FaultLiveness | None]]:
    """Faults in order of time with what each cost, None = not measured; none where no cost was measured."""
    measured = {cost.fault: cost for cost in verdict.liveness.faults}
    faults = sorted(verdict.faults, key=lambda fault: (fault.begin_s, fault.fault))
    return [(fault, measured.get(fault.fault)) for fault in faults] if measured else []


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
            case Interrupted():
                found.append((at, "interrupted", "the user ended the run before its time"))
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


def _assets(timeline: timelines.Timeline) -> dict[str, object]:
    """Style, scripts and figures; and the policy that lets only them run."""
    source = files("harness.report")
    style = source.joinpath("report.css").read_text(encoding="utf-8")
    script = source.joinpath("report.js").read_text(encoding="utf-8")
    drawn = figures.build(timeline) | cluster_figures.build(timeline)
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

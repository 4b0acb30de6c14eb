"""The page: everything that the report shows, in one HTML file.

The file loads nothing. It contains style and one script; its content security policy allows only the script
whose hash it names. Verdict, findings and drawings are markup, so they need no script. Templates compute
nothing: `report` is the page, `story` its first screen, `example` one example of a finding, `spacetime`
messages and states, `brokers_logs` what brokers' logs say, `parts` what these share.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from urllib.parse import urlsplit

import msgspec
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from core.errors import HistoryError, InquestError
from core.systems import planted_bug
from harness.report import clock, colours, near_faults, repetition, story, tested, wording
from harness.report.drawing import around, run, strips
from harness.report.evidence import log_table, replica_logs, transactions
from harness.report.inputs import Inputs
from harness.report.messages import section
from harness.report.timeline import numbers as timelines
from history.events import (
    ClockJumped,
    EndsUnseen,
    Event,
    EvidenceMissing,
    FaultFailed,
    HealFailed,
    Interrupted,
    NodeEnded,
    Note,
    Recovered,
    WorkerLost,
)
from history.reader import value_text
from history.recorded_files import regular
from history.run_folder import Run
from history.verdict import COMPARED, STALLS_KEPT, Example, Fault, FaultLiveness, Liveness, Verdict

BYTES_MAX = 3_900_000
"""Most bytes of a report."""
BYTES_WANTED = 640_000
"""Messages and examples fill a report up to this; it says how many examples it leaves out."""
MARGIN = 50_000
"""Bytes for what the page says about messages and examples."""
FAULTS_MAX = 300
FEW = 6
"""A table with more rows is folded."""
CLASSES_OPEN = 3
"""Forbidden classes that are shown without unfolding."""
PLACES_OPEN = 3
"""Violations in brokers' logs that are listed without unfolding."""
DOUBTS_OPEN = 1
"""What leaves a rule about logs open, as far as it is shown without unfolding."""
LOG_ROWS = 24
"""A log around a finding with more rows is folded."""
INCIDENTS_MOST = 100
NOTES_MAX = 200
RATE_LEAST_S = 1.0
"""A shorter load has no mean rate."""
STALLS_MAX = 40
TAKES_MAX = 20
TEXT_MOST = 1500
SCRIPTS = ("page.js", "clock.js", "drawing.js", "report.js")
"""The script of a report, in this order."""


def render(inputs: Inputs) -> bytes:
    """The whole file: messages and examples fill the room that is left of `BYTES_WANTED`.

    Raises: InquestError where even a report without examples is larger.
    """
    environment, verdict = environment_of(), inputs.verdict
    context = _context(inputs)
    page = environment.get_template("report.html.j2")
    bare = len(page.render(**context, messages="", examples={}).encode())
    if bare > BYTES_MAX:
        raise InquestError(
            f"{verdict.run}: the report would be {bare / 1e6:.1f} MB even without examples; see verdict.json"
        )
    room = BYTES_WANTED - MARGIN - bare
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
    first = context["story"]
    told = first.place if isinstance(first, story.Story) else None
    for place, example in sorted(wording.in_turn(verdict), key=lambda turn: turn[0] != told):
        name, number = place
        piece = example_of(name, verdict.anomalies[name], numbers[name], number, example)
        room -= len(piece.encode())
        if room < 0 and place != told:  # the story links to its own
            break
        examples[name].append(piece)
    return page.render(**context, examples=examples).encode()


def environment_of(*packages: str) -> Environment:
    """The templates of packages and of the report: everything from outside is escaped, and what is not
    defined is an error."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, ".") for package in (*packages, __package__)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=wording.number,
        share=wording.share,
        moment=wording.moment,
        plain=wording.plain,
        ms=wording.ms,
        sentence=wording.sentence,
        value=value_text,
        clip=clip,
        at=clock.at,
        cell=clock.cell,
        safe_colour=colours.safe,
        safe_url=safe_url,
    )
    environment.globals.update(
        count=wording.count,
        findings=wording.findings,
        hit=wording.hit,
        hits=wording.hits,
        strip_height=strips.HEIGHT,
    )
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
        "story": story.build(inputs, timeline),
        "dated": clock.passes_midnight(inputs.wall_ms, timeline.end),
        "timed": lambda text: clock.timed(text, inputs.start_ms),
        "logs": log_table.build(inputs),
        "logs_most": log_table.TABLES_MAX,
        "log_rows": LOG_ROWS,
        "transactions": transactions.build(inputs),
        "transactions_drawn": lambda found: around.transactions(found, verdict.faults),
        "scenes": scenes,
        "captured": inputs.trace is None,
        "scene_of": {scene.key: n for n, scene in enumerate(scenes, 1) if scene.key}.get,
        "inputs": inputs,
        "verdict": verdict,
        "foreign": verdict.config.get("imported") is not None,
        "repeats": repetition.what_repeats(verdict.config),
        "repeat_where": repetition.where(verdict.config),
        "planted": planted_bug(verdict.config),
        "system": wording.system(verdict.config),
        "application": verdict.config.get("app") is not None,
        "state": wording.state(verdict),
        "recovery": recovery(verdict, inputs.events),
        "contradiction": wording.contradiction(verdict),
        "configuration": tested.configuration(verdict.config),
        "tested": tested.described(verdict) + shrunk(inputs.run),
        "anomalies": wording.ranked(verdict),
        "permitted": [name for name, one in wording.ranked(verdict) if not one.disallowed],
        "undecided": wording.undecided(verdict),
        "incidents_open": wording.INCIDENTS_MAX,
        "incidents_most": INCIDENTS_MOST,
        "held": wording.held(verdict),
        "throughput": throughput(timeline),
        "timeline": timeline,
        "drawing": run.timeline(timeline),
        "cluster": timeline.cluster,
        "cluster_drawing": run.cluster(timeline),
        "liveness": costs(verdict),
        "stalls_most": STALLS_MAX,
        "stall_words": stall_words(verdict.liveness, STALLS_MAX),
        "witness": lambda example: around.witness(example, in_force(example, verdict.faults)),
        "in_force": lambda example: in_force(example, verdict.faults),
        "near": lambda example: near_faults.beside(example, verdict.faults),
        "faults": by_time(verdict.faults),
        "faults_line": wording.sentence(wording.faults_line(verdict)),
        "faults_most": FAULTS_MAX,
        "reached_line": wording.sentence(wording.reached_line(verdict)),
        "few": FEW,
        "classes_open": CLASSES_OPEN,
        "places_open": PLACES_OPEN,
        "compares": COMPARED,
        "doubts_open": DOUBTS_OPEN,
        "logs_line": wording.sentence(wording.logs_line(verdict)),
        "refused": replica_logs.build(inputs),
        "takes_most": TAKES_MAX,
        "notes": [(inputs.seconds(event.ns), *said) for event in inputs.events if (said := note(event))],
        "notes_most": NOTES_MAX,
        **assets(),
    }


def recovery(verdict: Verdict, events: Sequence[Event]) -> tuple[str, str] | None:
    """Kind and text of the tag that says whether the cluster came back (`harness.run.recovery`); None where
    no fault was healed, so that there was nothing to come back from."""
    if verdict.recovered is None:
        return "neutral", "recovery not known"
    if not verdict.recovered:
        return "not-recovered", "! did not recover"
    if not verdict.faults:
        return None
    stalled = verdict.anomalies.get("stalled-client")
    lost = len({one.slot for one in events if isinstance(one, WorkerLost) and not one.level})
    served = f"all {'other ' * bool(lost)}clients served"
    if stalled:
        served = f"{wording.count(stalled.count, 'client')} stood still"
    # of a cluster of others, internal partitions that lagged before any fault are not asked
    as_before = verdict.config.get("sut") == "external"
    what = f"{wording.count(lost, 'client')} lost, " * bool(lost)
    what += f"{'replicas in sync as before the faults' if as_before else 'all replicas in sync'}, {served}"
    seconds = None if stalled else verdict.recovery_s  # those who stand still have not recovered
    return "neutral", what if seconds is None else f"{what} {wording.number(seconds, 1)} s after healing"


class _Shrunk(msgspec.Struct, frozen=True):
    """What the report needs of shrunk.json (`harness.explore.shrink`)."""

    of: str
    anomaly: str
    tries: int
    steps: tuple[int, int]


def shrunk(run: Run) -> list[tuple[str, str]]:
    """Which run this one was shrunk from, and how many faults are left; nothing where it was not shrunk."""
    try:
        its = msgspec.json.decode(regular(run.shrunk).read_bytes(), type=_Shrunk)
    except (OSError, HistoryError, msgspec.MsgspecError, UnicodeDecodeError):
        return []
    had, tries = wording.count(its.steps[0], "fault"), wording.count(its.tries, "try", "tries")
    return [("Shrunk", f"from {its.of}, which had {had}: {its.steps[1]} left, for {its.anomaly}; {tries}")]


def by_time(faults: Iterable[Fault]) -> list[Fault]:
    """Faults in order of time."""
    return sorted(faults, key=lambda fault: (fault.begin_s, fault.fault))


def in_force(example: Example, faults: list[Fault]) -> list[Fault]:
    """The faults that the witness names."""
    return by_time(fault for fault in faults if fault.fault in example.faults)


def stall_words(liveness: Liveness, rows: int) -> tuple[str, str]:
    """How many stalls there were, and which of them a table of `rows` shows, "" = all."""
    kept, total = len(liveness.stalls), liveness.stall_count
    more = total is None and kept >= STALLS_KEPT  # an older version kept no more, and did not count them
    total = kept if total is None else total
    many = wording.count(total, "stall") + " or more" * more
    if total <= rows:
        return many, ""
    has = "all of them" if total == kept and not more else f"the {wording.number(kept)} longest"
    shown = wording.number(min(rows, kept))
    return many, f"These are the {shown} longest of {many}; verdict.json has {has}."


def throughput(timeline: timelines.Timeline) -> list[tuple[str, str]]:
    """Numbers of the whole run: term and description."""
    if timeline.rates is None:
        return []
    seconds = timeline.rates.seconds
    total = {
        name: sum(getattr(row, name) for row in timeline.kinds)
        for name in ("ok", "fail", "info", "aborts", "written", "read")
    }
    ended = {"ok": "ok", "fail": "failed", "info": "unknown", "aborts": "deliberately aborted"}
    parts = [
        f"{wording.number(total[name])} {word}"
        for name, word in ended.items()
        if name != "aborts" or total[name]
    ]
    rows = [("Ops", f"{wording.number(sum(total[name] for name in ended))}: {', '.join(parts)}")]
    for term, many in (("Written", total["written"]), ("Read", total["read"])):
        mean = f", on average {wording.number(many / seconds)} per second" if seconds >= RATE_LEAST_S else ""
        rows.append((term, f"{wording.count(many, 'record')} by successful operations{mean}"))
    return rows


def costs(verdict: Verdict) -> list[tuple[Fault, FaultLiveness | None]]:
    """Faults in order of time with what each cost, None = not measured; none where no cost was measured."""
    measured = {cost.fault: cost for cost in verdict.liveness.faults}
    return [(fault, measured.get(fault.fault)) for fault in by_time(verdict.faults)] if measured else []


def note(event: Event) -> tuple[str, str] | None:
    """The kind and the text of an event, if it is a note for the reader."""
    match event:
        case FaultFailed():
            return "fault not made", f"{event.name}: {event.why}"
        case HealFailed():
            return "not healed", f"{event.name}: {event.why}" if event.name else event.why
        case NodeEnded(end=end):
            return "node ended", "\n".join((f"node {end.node}, exit code {end.exit_code}", *end.log))
        case EndsUnseen():
            return "nodes not watched", event.why
        case ClockJumped():
            return "clock jumped", f"by {event.wall_s:+.2f} s; the machine slept {event.suspended_s:.1f} s"
        case EvidenceMissing():
            return "evidence missing", event.why
        case WorkerLost():
            return "worker lost", f"{event.who}: {event.why}"
        case Interrupted():
            return "interrupted", "the user ended the run before its time"
        case Note():
            return "recording incomplete" if event.incomplete else "note", event.text
        case Recovered(recovered=True):
            return "recovered", f"after {event.seconds:.1f} s"
        case Recovered():
            return "not recovered", f"after {event.seconds:.1f} s: {event.why}"
    return None


def assets() -> dict[str, object]:
    """Style and script; and the policy that lets only them run."""
    script = scripts(*map(source, SCRIPTS))
    return {"style": Markup(source("report.css")), "script": Markup(script), "policy": policy(script)}


def source(name: str, package: str = __package__) -> str:
    """A style sheet or a script of a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def scripts(*sources: str) -> str:
    """Scripts as one, in their order, which share a scope that nothing else sees."""
    return "\n".join(("(() => {", '"use strict";', *sources, "})();"))


def policy(script: str) -> str:
    """The content security policy of a page whose only script this is."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )

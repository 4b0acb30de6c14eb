"""A known bug: what it is, and how a finding shows it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from checkers.engine.evidence import Wanted
from checkers.engine.findings import Finding, LogFinding
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.known_bugs.transaction_fates import Suspicion

Match = Callable[[Suspicion], bool]

Together = Callable[[LabelledRun, Sequence[Finding]], Sequence[bool]]

LogMatch = Callable[[LabelledRun, LogFinding], bool]


def all_together(run: LabelledRun, findings: Sequence[Finding]) -> list[bool]:
    """For signatures that say of each finding alone that it is the bug's."""
    return [True] * len(findings)


def no_records(run: LabelledRun, finding: Finding) -> Wanted | None:
    """For signatures that need none beside the finding."""
    return Wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBug:
    """One bug; its id is its key in `registry`.

    link: what to call it. page: its URL, or its path in docs/; "" = that of the JIRA `link`. versions:
    where the bug is. doc: its story, in Markdown. evidence: what a finding must show. All are words of
    docs/known-bugs.md.
    wanted: the records that `match` needs beside the finding; None = it does not bear the signature.
    in_logs: class of a finding in brokers' logs -> whether it bears the signature.
    together: of all that bear it, which ones what is on record of the bug explains together.
    """

    title: str
    link: str
    versions: str
    doc: str
    evidence: str
    page: str = ""
    anomalies: tuple[str, ...] = ()
    match: Match = field(default=lambda _: False, repr=False)
    wanted: Callable[[LabelledRun, Finding], Wanted | None] = field(default=no_records, repr=False)
    in_logs: Mapping[str, LogMatch] = field(default_factory=dict, repr=False)
    together: Together = field(default=all_together, repr=False)

    @property
    def url(self) -> str:
        """Of its page; relative to docs/, where it is one of this repository."""
        return self.page or f"https://issues.apache.org/jira/browse/{self.link}"

    @property
    def address(self) -> str:
        """Where to read about it: a URL, or the path of a page of this repository."""
        return self.url if "://" in self.url else f"docs/{self.url}"

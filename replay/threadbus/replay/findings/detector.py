"""What a detector is: one rule with its settings, fed event by event, that reports findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, TypeAlias

import msgspec

from threadbus.replay.finding import Finding, FindingKind
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.scene import Scene
from threadbus.replay.findings.seen import Seen
from threadbus.replay.story import Timeline
from threadbus.schemas import AgentName, EventData, EventId, Rejected, ThreadId

MAX_EVIDENCE: Final = 8
"""Events that one finding names."""

_S: Final = 1_000_000_000

Value: TypeAlias = bool | int | float | tuple[str, ...]
"""What a setting may be."""


class Setting(msgspec.Struct, frozen=True):
    """Something that the rule of a detector depends on; the type is that of the default."""

    name: str
    default: Value
    about: str
    """In a few words."""
    least: float = 0
    most: float = 1e12


class End(msgspec.Struct, frozen=True):
    """What is known when the log has been read."""

    timeline: Timeline
    now: int
    """Nanoseconds since the epoch: the close, or the time by which what is open is so old."""
    is_over: bool
    """Nothing more will come: the task is closed, or the log is all there will ever be."""


class Sink:
    """Takes the findings of one detector, no more than *most*, and counts the rest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.findings: list[Finding] = []
        self.more = 0
        """Findings beyond the bound, of which only the number is known."""

    def add(self, finding: Finding) -> None:
        """Keep *finding*, if there is room."""
        if len(self.findings) < self._most:
            self.findings.append(finding)
        else:
            self.more += 1


class Detector:
    """One rule; a subclass for each.

    An instance looks at one run: :meth:`see` for each event of the types that it needs,
    :meth:`finish` once. What it keeps is bounded.

    Args:
        scene: what is known of the run so far; kept up to date before each :meth:`see`.
        values: its settings, all of them.
        sink: where findings go.
    """

    id: ClassVar[str]
    name: ClassVar[str]
    kind: ClassVar[FindingKind]
    rule: ClassVar[str]
    """One sentence."""
    needs: ClassVar[tuple[type[EventData], ...]] = ()
    """The events that :meth:`see` is called for."""
    settings: ClassVar[tuple[Setting, ...]] = ()

    def __init__(self, scene: Scene, values: Mapping[str, Value], sink: Sink) -> None:
        self.scene = scene
        self._values = values
        self._sink = sink
        self.begin()

    def begin(self) -> None:
        """Set up what the detector keeps."""

    def see(self, seen: Seen) -> None:
        """Take the next event."""

    def see_orphan(self, seen: Seen) -> None:
        """Take an event whose cause is not in the log before it, of whatever type."""

    def see_silence(self, seen: Seen) -> None:
        """Take an event, of whatever type, before which all, or the agent at its job, were silent
        for a second or more although something was open."""

    def see_again(self, seen: Seen) -> None:
        """Take an event whose id was in the log before."""

    def see_unreadable(self, entry: Rejected) -> None:
        """Take an entry of the log that is no event."""

    def finish(self, end: End) -> None:
        """Look at the run as a whole."""

    # settings

    def count(self, name: str) -> int:
        """Return a setting that is a whole number."""
        value = self._values[name]
        return int(value) if isinstance(value, int | float) else 0

    def share(self, name: str) -> float:
        """Return a setting that is a number."""
        value = self._values[name]
        return float(value) if isinstance(value, int | float) else 0.0

    def ns(self, name: str) -> int:
        """Return a setting that is in seconds, as nanoseconds."""
        return int(self.share(name) * _S)

    def is_on(self, name: str) -> bool:
        """Return a setting that is a switch."""
        return bool(self._values[name])

    def words(self, name: str) -> tuple[str, ...]:
        """Return a setting that is a list of words."""
        value = self._values[name]
        return value if isinstance(value, tuple) else ()

    # reporting

    def report(
        self,
        where: Seen | Ref,
        text: str,
        *,
        agent: AgentName | None = None,
        thread: ThreadId | None = None,
        evidence: Sequence[EventId] = (),
        kind: FindingKind | None = None,
    ) -> None:
        """Report a finding.

        Args:
            where: the event that it is about.
            text: a sentence for a person; what others wrote must be cut and harmless.
            agent: whom it is about; the sender of *where* when absent.
            thread: where; the thread of *where* when absent.
            evidence: further events that show it.
            kind: where it is not that of the detector.
        """
        ref = where if isinstance(where, Ref) else where.ref
        self.report_at(
            ref.seq,
            ref.at,
            text,
            agent=agent or ref.sender,
            thread=thread or ref.thread,
            evidence=(ref.id, *evidence),
            kind=kind,
        )

    def report_at(
        self,
        seq: int,
        at: int,
        text: str,
        *,
        agent: AgentName | None = None,
        thread: ThreadId | None = None,
        evidence: Sequence[EventId] = (),
        kind: FindingKind | None = None,
    ) -> None:
        """Report a finding about a place in the log that may hold no event."""
        self._sink.add(
            Finding(
                detector=self.id,
                name=self.name,
                kind=kind or self.kind,
                seq=seq,
                at=at,
                text=text,
                agent=agent,
                thread=thread,
                evidence=tuple(dict.fromkeys(evidence))[:MAX_EVIDENCE],
            )
        )

"""The analysis of a run: every entry of the log goes to the detectors that need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from threadbus.replay.finding import Finding, FindingKind, Suspect
from threadbus.replay.findings.acts import Acts
from threadbus.replay.findings.causes import suspects_of
from threadbus.replay.findings.detector import Detector, End, Sink
from threadbus.replay.findings.ranking import suspects_among
from threadbus.replay.findings.registry import ALL
from threadbus.replay.findings.scene import Scene
from threadbus.replay.findings.seen import Seen
from threadbus.replay.findings.settings import FindingSettings
from threadbus.replay.source import LogItem
from threadbus.replay.story import Timeline
from threadbus.schemas import Rejected, TaskId

SILENCE_NS: Final = 1_000_000_000
"""Silence from which on detectors are told of it."""

_GRAVITY: Final = {FindingKind.HINT: 0, FindingKind.SYMPTOM: 1, FindingKind.VIOLATION: 2}


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """What the detectors found in one run."""

    findings: tuple[Finding, ...] = ()
    """In log order; of each detector no more than the settings say."""
    suspects: tuple[Suspect, ...] = ()
    """The likeliest first, three at most; empty where nothing worse than a hint was found. In a run
    that was imported, where no causes are recorded: the steps that look most like a mistake, if the
    run failed."""
    more: dict[str, int] = {}
    """Detector's id → findings beyond the bound, which are counted only."""

    @property
    def gravest(self) -> FindingKind | None:
        """The gravest kind among the findings."""
        kinds = [finding.kind for finding in self.findings]
        return max(kinds, key=lambda kind: _GRAVITY[kind], default=None)


class Analyser:
    """Looks at one run, entry by entry.

    Args:
        settings: which detectors look, and by which values.
        detectors: those that there are.
    """

    def __init__(
        self,
        settings: FindingSettings | None = None,
        detectors: Sequence[type[Detector]] = ALL,
    ) -> None:
        settings = settings or FindingSettings()
        self.scene = Scene(settings.polling)
        """What is known of the run so far."""
        self.acts = Acts()
        """What was done step by step; only of a run that was imported."""
        self._task: TaskId | None = None
        self._sinks: dict[str, Sink] = {}
        self._detectors: list[Detector] = []
        self._takers: dict[type, tuple[Callable[[Seen], None], ...]] = {}
        for kind in detectors:
            if kind.id in settings.off:
                continue
            sink = self._sinks.setdefault(kind.id, Sink(settings.most))
            self._detectors.append(kind(self.scene, settings.of(kind), sink))
        needed = {type_ for detector in self._detectors for type_ in detector.needs}
        for type_ in needed:
            self._takers[type_] = tuple(
                [detector.see for detector in self._detectors if type_ in detector.needs]
            )
        self._orphan = _overriding(self._detectors, "see_orphan")
        self._silence = _overriding(self._detectors, "see_silence")
        self._again = _overriding(self._detectors, "see_again")
        self._unreadable = _overriding(self._detectors, "see_unreadable")

    def apply(self, item: LogItem) -> None:
        """Take the next entry of the log. The first event says which super-task this is about."""
        if isinstance(item, Rejected):
            self.scene.is_whole = False
            self.scene.rejected += 1
            for detector in self._unreadable:
                detector.see_unreadable(item)
            return
        event = item.event
        if self._task is None:
            self._task = event.task
        elif event.task != self._task:
            return
        if event.id in self.scene.known:
            again = self.scene.repeated(item)
            for detector in self._again:
                detector.see_again(again)
            return
        seen = self.scene.look(item)
        if self.scene.is_imported:
            self.acts.take(seen)
        if seen.cause is None and event.cause is not None:
            for detector in self._orphan:
                detector.see_orphan(seen)
        job = seen.job
        if seen.gap >= SILENCE_NS or (job is not None and job.quiet_ns >= SILENCE_NS):
            for detector in self._silence:
                detector.see_silence(seen)
        for take in self._takers.get(type(event.data), ()):
            take(seen)

    def finish(self, timeline: Timeline, now: int | None = None) -> Analysis:
        """Look at the run as a whole, and say what was found.

        It can be called once. What was applied must be what *timeline* was folded from.

        Args:
            timeline: the whole run.
            now: nanoseconds since the epoch, for the age of what is open in a run that goes on;
                absent where the log is complete and nothing more will come.
        """
        closed_at = timeline.closed_at
        if closed_at is not None:
            end = End(timeline, closed_at, is_over=True)
        elif now is None:
            end = End(timeline, timeline.last_at, is_over=True)
        else:
            end = End(timeline, max(now, timeline.last_at), is_over=False)
        for detector in self._detectors:
            detector.finish(end)
        findings: list[Finding] = []
        more: dict[str, int] = {}
        for name, sink in self._sinks.items():
            kept = sorted(sink.findings, key=_place)
            if sink.more:
                more[name] = sink.more
                text = f"{kept[-1].text} (and {sink.more:,} more of {name})"
                kept[-1] = msgspec.structs.replace(kept[-1], text=text)
            findings += kept
        findings.sort(key=_place)
        suspects = (
            suspects_among(self.acts.all)
            if self.scene.is_imported
            else suspects_of(findings, self.scene)
        )
        return Analysis(findings=tuple(findings), suspects=suspects, more=more)


def _place(finding: Finding) -> tuple[int, str]:
    return finding.seq, finding.detector


def _overriding(detectors: Sequence[Detector], method: str) -> list[Detector]:
    plain = getattr(Detector, method)
    return [detector for detector in detectors if getattr(type(detector), method) is not plain]

"""What a command does with findings: look while it reads, judge if asked to, and say how grave."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TypeVar

import msgspec

from threadbus.replay.findings.analyser import Analyser, Analysis
from threadbus.replay.findings.judge import JudgeSettings, ask_judge
from threadbus.replay.findings.settings import FindingSettings
from threadbus.replay.source import LogItem
from threadbus.replay.story import Timeline

T = TypeVar("T")


class FindingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Whether and how a run is analysed."""

    settings: FindingSettings = FindingSettings()
    judge: JudgeSettings | None = None
    """The model to ask; nobody is asked where it is absent."""


class Watch:
    """Analyses a run while a command reads it.

    Args:
        options: how; nothing is looked at where they are absent.
    """

    def __init__(self, options: FindingOptions | None) -> None:
        self._options = options
        self._analyser = None if options is None else Analyser(options.settings)
        self.analysis = Analysis()
        """What was found, once :meth:`finish` is done."""

    async def over(
        self, items: AsyncIterator[T], entry_of: Callable[[T], LogItem]
    ) -> AsyncGenerator[T]:
        """Look at the entry of each of *items*, and pass it on."""
        analyser = self._analyser
        async for item in items:
            if analyser is not None:
                analyser.apply(entry_of(item))
            yield item

    async def finish(self, timeline: Timeline, now: int | None) -> None:
        """Put what was found into *timeline*, and the opinion of a judge that is asked for.

        Args:
            timeline: the whole run, as it was folded.
            now: nanoseconds since the epoch; absent where nothing more will come.

        Cancellation: safe; without the opinion.
        """
        if self._analyser is None or self._options is None:
            return
        analysis = self._analyser.finish(timeline, now)
        if self._options.judge is not None:
            verdict = await ask_judge(timeline, analysis, self._options.judge)
            findings = sorted(
                (*analysis.findings, *verdict.findings), key=lambda one: (one.seq, one.detector)
            )
            analysis = msgspec.structs.replace(analysis, findings=tuple(findings))
            timeline.judgement = verdict.judgement
        self.analysis = analysis
        timeline.findings = list(analysis.findings)
        timeline.suspects = list(analysis.suspects)

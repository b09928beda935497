"""Repetition: the same again, nearly the same, in circles, or to no effect."""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from threadbus.replay.finding import FindingKind
from threadbus.replay.findings.bounded import trim
from threadbus.replay.findings.detector import Detector, Setting
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.seen import Seen
from threadbus.replay.findings.texts import likeness, norm, shingles
from threadbus.replay.text import first_line
from threadbus.schemas import (
    AgentName,
    AssignmentFinished,
    AssignmentMade,
    EventId,
    MessagePosted,
    ThreadId,
    ToolCalled,
    ToolReturned,
)

_MAX_STREAKS: Final = 20_000


class _Streak(msgspec.Struct, gc=False):
    progress: int
    first: Ref
    count: int = 1


class ExactRepetition(Detector):
    id = "R1"
    name = "exact repetition"
    kind = FindingKind.SYMPTOM
    rule = (
        "An agent says the same, or calls the same tool with the same arguments, although nothing "
        "new has come to it since; one more time is allowed after an error, and polling tools are "
        "left out."
    )
    needs = (MessagePosted, AssignmentMade, ToolCalled)
    settings = (
        Setting("times", 2, "how often the same counts as a repetition", 2),
        Setting("min_chars", 12, "shorter messages are not compared"),
    )

    def begin(self) -> None:
        self._streaks: dict[tuple[AgentName, ThreadId, int], _Streak] = {}
        self._times = self.count("times")
        self._min_chars = self.count("min_chars")

    def see(self, seen: Seen) -> None:
        event, data = seen.event, seen.event.data
        limit = self._times
        if isinstance(data, ToolCalled):
            if self.scene.is_polling(data.tool):
                return
            progress = self.scene.inputs.get(event.sender, 0)
            job = seen.job
            if job is not None and job.tool_error is not None and job.error_tool == data.tool:
                limit += 1
        else:
            if len(seen.content) < self._min_chars:
                return
            progress = self.scene.moves(event.sender, event.thread)
        key = (event.sender, event.thread, seen.signature)
        streak = self._streaks.get(key)
        if streak is None or streak.progress != progress:
            self._streaks[key] = _Streak(progress, seen.ref)
            trim(self._streaks, _MAX_STREAKS)
            return
        streak.count += 1
        if streak.count == limit:
            what = f"says the same: {first_line(seen.content, 80)}"
            if isinstance(data, ToolCalled):
                what = f"calls {first_line(data.tool, 60)} with the same arguments"
            self.report(
                seen,
                f"{event.sender} {what}, {streak.count} times and nothing new in between",
                evidence=(streak.first.id,),
            )


class _Recent(msgspec.Struct):
    progress: int
    texts: deque[tuple[str, Ref]]
    is_told: bool = False


class NearRepetition(Detector):
    id = "R2"
    name = "near repetition"
    kind = FindingKind.SYMPTOM
    rule = (
        "An agent posts a message that shares most of its runs of words with one of its own last "
        "messages, and nothing new has come to the thread in between."
    )
    needs = (MessagePosted,)
    settings = (
        Setting("likeness", 0.7, "how much two messages share, from 0 to 1 (Jaccard)", 0.1, 1),
        Setting("min_chars", 80, "shorter messages are not compared"),
        Setting("last", 20, "own messages that are looked back on", 1, 200),
    )

    def begin(self) -> None:
        self._recent: dict[tuple[AgentName, ThreadId], _Recent] = {}
        self._likeness = self.share("likeness")
        self._min_chars = self.count("min_chars")
        self._last = self.count("last")

    def see(self, seen: Seen) -> None:
        text = seen.content
        if len(text) < self._min_chars:
            return
        event = seen.event
        key = (event.sender, event.thread)
        progress = self.scene.moves(event.sender, event.thread)
        recent = self._recent.get(key)
        if recent is None or recent.progress != progress:
            recent = self._recent[key] = _Recent(progress, deque(maxlen=self._last))
            trim(self._recent, _MAX_STREAKS)
        elif not recent.is_told:
            self._compare(seen, text, recent)
        recent.texts.append((text[:4_000], seen.ref))

    def _compare(self, seen: Seen, text: str, recent: _Recent) -> None:
        flat, pieces = seen.flat, shingles(text)
        for other, ref in reversed(recent.texts):
            if not 0.5 < len(other) / len(text) < 2 or norm(other) == flat:
                continue
            share = likeness(pieces, shingles(other))
            if share >= self._likeness:
                recent.is_told = True
                self.report(
                    seen,
                    f"{seen.event.sender} says nearly the same again ({share:.0%} alike): "
                    f"{first_line(text, 80)}",
                    evidence=(ref.id,),
                )
                return


class _Tail(msgspec.Struct):
    progress: int
    acts: deque[tuple[int, Ref]]


class Loop(Detector):
    id = "R3"
    name = "loop or ping-pong"
    kind = FindingKind.SYMPTOM
    rule = (
        "What is said in a thread, or the tools that an agent calls, goes round in a circle of two "
        "to four acts several times without anything lasting in between."
    )
    needs = (MessagePosted, AssignmentMade, ToolCalled)
    settings = (
        Setting("longest", 4, "acts that one round has at most", 2, 16),
        Setting("rounds", 3, "rounds that make a loop", 2, 50),
    )

    def begin(self) -> None:
        self._tails: dict[tuple[str, str], _Tail] = {}
        self._longest = self.count("longest")
        self._rounds = self.count("rounds")

    def see(self, seen: Seen) -> None:
        event, data = seen.event, seen.event.data
        if isinstance(data, ToolCalled):
            if self.scene.is_polling(data.tool):
                return
            key: tuple[str, str] = ("tools", event.sender)
            progress = self.scene.inputs.get(event.sender, 0)
        else:
            key = ("thread", event.thread)
            progress = self.scene.room(event.thread).lasting
        tail = self._tails.get(key)
        if tail is None or tail.progress != progress:
            tail = _Tail(progress, deque(maxlen=self._longest * self._rounds))
            self._tails[key] = tail
            trim(self._tails, _MAX_STREAKS)
        acts = tail.acts
        acts.append((hash((event.sender, seen.signature)), seen.ref))
        period = self._period(acts)
        if period:
            self._tell(seen, acts, period)
            acts.clear()

    def _period(self, acts: deque[tuple[int, Ref]]) -> int:
        last = acts[-1][0]
        for period in range(2, self._longest + 1):
            wanted = period * self._rounds
            if len(acts) < wanted or acts[-1 - period][0] != last:
                continue
            tail = [act for act, _ in acts][-wanted:]
            is_round = all(tail[at] == tail[at + period] for at in range(wanted - period))
            if is_round and len(set(tail[:period])) > 1:
                return period
        return 0

    def _tell(self, seen: Seen, acts: deque[tuple[int, Ref]], period: int) -> None:
        refs = [ref for _, ref in acts][-period * self._rounds :]
        agents = list(dict.fromkeys([ref.sender for ref in refs]))
        who = " and ".join(agents) if len(agents) < 3 else f"{len(agents)} agents"
        circle = "go back and forth" if len(agents) > 1 else "goes round in a circle"
        self.report(
            seen,
            f"{who} {circle}: the same {period} acts, {self._rounds} times in a row",
            # The second round is the first that brings nothing new.
            evidence=tuple(ref.id for ref in refs[period : 2 * period]),
        )


class _Result(msgspec.Struct):
    progress: int
    result: int
    calls: dict[int, EventId]
    is_told: bool = False


class Stagnation(Detector):
    id = "R4"
    name = "result stagnation"
    kind = FindingKind.SYMPTOM
    rule = (
        "A tool brings an agent the same result several times although the arguments differ, or "
        "the same work is given away several times and brings the same each time."
    )
    needs = (ToolCalled, ToolReturned, AssignmentFinished)
    settings = (
        Setting("times", 3, "different calls with one result", 2),
        Setting("min_chars", 10, "shorter results, such as ok, are not compared"),
    )

    def begin(self) -> None:
        self._calls: dict[tuple[AgentName, EventId | None, str], int] = {}
        self._results: dict[tuple[AgentName, ThreadId, str], _Result] = {}
        self._work: dict[tuple[AgentName, AgentName, str], _Result] = {}
        self._times = self.count("times")
        self._min_chars = self.count("min_chars")

    def see(self, seen: Seen) -> None:
        event, data = seen.event, seen.event.data
        if isinstance(data, ToolCalled):
            self._calls[event.sender, event.cause, data.call_id] = seen.signature
            trim(self._calls, _MAX_STREAKS)
            return
        if isinstance(data, AssignmentFinished):
            self._finished(seen)
            return
        if not isinstance(data, ToolReturned):
            return
        call = self._calls.pop((event.sender, event.cause, data.call_id), None)
        if call is None or data.error is not None or self.scene.is_polling(data.tool):
            return
        if len(seen.content) < self._min_chars:
            return
        key = (event.sender, event.thread, data.tool)
        progress = self.scene.inputs.get(event.sender, 0)
        found = self._results.get(key)
        result = hash(seen.flat)
        if found is None or (found.progress, found.result) != (progress, result):
            self._results[key] = _Result(progress, result, {call: event.id})
            trim(self._results, _MAX_STREAKS)
            return
        found.calls.setdefault(call, event.id)
        if len(found.calls) >= self._times and not found.is_told:
            found.is_told = True
            self.report(
                seen,
                f"{event.sender} gets the same from {first_line(data.tool, 60)} "
                f"{len(found.calls)} times with different arguments: "
                f"{first_line(seen.content, 60)}",
                evidence=tuple(found.calls.values()),
            )

    def _finished(self, seen: Seen) -> None:
        """The same work again, with the same result."""
        about = seen.ref.about
        request = None if about is None else self.scene.requests.all.get(about)
        if request is None or len(seen.content) < self._min_chars:
            return
        key = (request.asker, request.to, request.flat)
        result = hash(seen.flat)
        found = self._work.get(key)
        if found is None or found.result != result:
            self._work[key] = _Result(0, result, {seen.seq: seen.event.id})
            trim(self._work, _MAX_STREAKS)
            return
        found.calls.setdefault(seen.seq, seen.event.id)
        if len(found.calls) >= self._times and not found.is_told:
            found.is_told = True
            self.report(
                seen,
                f"{request.asker} has given {request.to} the same work {len(found.calls)} times, "
                f"with the same result: {first_line(seen.content, 60)}",
                agent=request.asker,
                evidence=tuple(found.calls.values()),
            )

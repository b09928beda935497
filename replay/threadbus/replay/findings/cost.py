"""Cost and time: who used most of it, what was used up, and who waited for whom."""

from __future__ import annotations

import re
from statistics import median
from typing import Final

from threadbus.replay.finding import FindingKind
from threadbus.replay.findings.detector import Detector, End, Setting
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.seen import Seen
from threadbus.replay.story import AgentTotals, Turn
from threadbus.replay.text import duration, first_line
from threadbus.schemas import (
    AgentName,
    AnswerSubmitted,
    EventId,
    HandlingFailed,
    ModelCalled,
    TaskClosed,
    TaskStatus,
    ThreadId,
    ThreadOpened,
)

_MAX_ABOVE: Final = 100_000
_LIMIT_ERRORS: Final = re.compile(r"Budget|TurnTimeout|TaskDeadline|RoundsExceeded|ContextLength")
_LIMIT_WORDS: Final = re.compile(
    r"budget|deadline|time ?limit|timed? ?out|max(imum)?[ _](rounds|turns|steps|time)|rounds",
    re.IGNORECASE,
)


class CostShare(Detector):
    id = "B1"
    name = "share of the cost"
    kind = FindingKind.HINT
    rule = (
        "One of at least three agents uses most of the tokens, or many times what the others use; "
        "or most of the tokens went into turns that the accepted answer does not rest on."
    )
    needs = (ModelCalled, AnswerSubmitted)
    settings = (
        Setting("share", 0.6, "share of all tokens, from 0 to 1", 0, 1),
        Setting("times", 3.0, "times the median of the others"),
        Setting("wasted", 0.5, "share of tokens outside the answer's causes, from 0 to 1", 0, 1),
        Setting("min_tokens", 10_000, "tokens of the run from which on it is looked at"),
    )

    def begin(self) -> None:
        self._last: dict[AgentName, Ref] = {}
        self._sources: dict[EventId, tuple[str, ...]] = {}

    def see(self, seen: Seen) -> None:
        data = seen.event.data
        if isinstance(data, AnswerSubmitted):
            if len(self._sources) < 1_000:
                self._sources[seen.event.id] = data.sources
        else:
            self._last[seen.event.sender] = seen.ref

    def finish(self, end: End) -> None:
        totals = end.timeline.totals
        whole = totals.input_tokens + totals.output_tokens
        if whole < max(self.count("min_tokens"), 1):
            return
        used = {
            name: agent.input_tokens + agent.output_tokens
            for name, agent in end.timeline.agents.items()
            if agent.model_calls
        }
        if len(used) > 2:
            most = max(used, key=lambda name: used[name])
            others = median([count for name, count in used.items() if name != most])
            share = used[most] / whole
            if share > self.share("share") or used[most] > self.share("times") * others:
                self.report(
                    self._last[most],
                    f"{most} used {used[most]:,} of {whole:,} tokens ({share:.0%}); the others "
                    f"{int(others):,} each (median)",
                )
        self._wasted(end, whole)

    def _wasted(self, end: End, whole: int) -> None:
        answer = self.scene.get(end.timeline.accepted_answer)
        if answer is None or end.timeline.left_out:
            # What was left out of a very long story may have been of use.
            return
        above = self._above(answer)
        useful = sum(
            turn.input_tokens + turn.output_tokens
            for thread in end.timeline.threads.values()
            for turn in thread.entries
            if isinstance(turn, Turn)
            and (turn.mention in above or any(step.id in above for step in turn.steps))
        )
        wasted = 1 - useful / whole
        if wasted > self.share("wasted"):
            self.report(
                answer,
                f"{wasted:.0%} of {whole:,} tokens went into turns that the answer does not rest "
                "on",
            )

    def _above(self, answer: Ref) -> set[EventId]:
        """Return the events that the answer rests on, and what was asked for on the way."""
        found: set[EventId] = set()
        queue = [answer.id, *map(EventId, self._sources.get(answer.id, ()))]
        results: dict[EventId, list[EventId]] = {}
        for request in self.scene.requests.all.values():
            if request.settled is not None and request.ref.cause is not None:
                results.setdefault(request.ref.cause, []).append(request.settled.id)
        while queue and len(found) < _MAX_ABOVE:
            one = queue.pop()
            if one in found:
                continue
            found.add(one)
            ref = self.scene.get(one)
            if ref is not None:
                queue += [other for other in (ref.cause, ref.about) if other is not None]
                # What a turn asked for and got, it built upon.
                queue += results.get(one, ())
        return found


class LimitReached(Detector):
    id = "B2"
    name = "limit reached"
    kind = FindingKind.SYMPTOM
    rule = (
        "A budget of tokens, a deadline, a bound on turns or on the length of an answer was "
        "reached, or the task was closed as failed because of one."
    )
    needs = (ModelCalled, HandlingFailed, TaskClosed, ThreadOpened)

    def begin(self) -> None:
        self._bounds: dict[ThreadId, tuple[int, Ref]] = {}
        self._last_model: Ref | None = None

    def see(self, seen: Seen) -> None:
        sender, data = seen.event.sender, seen.event.data
        match data:
            case ModelCalled():
                self._last_model = seen.ref
                if data.finish_reason == "length":
                    self.report(seen, f"the answer of a model to {sender} was cut off by its limit")
            case HandlingFailed():
                if _LIMIT_ERRORS.search(data.error.kind):
                    told = first_line(f"{data.error.kind}: {data.error.message}", 100)
                    self.report(seen, f"{sender} reached a limit: {told}")
            case ThreadOpened():
                if data.max_turns is not None and len(self._bounds) < 10_000:
                    self._bounds[seen.event.thread] = (data.max_turns, seen.ref)
            case TaskClosed():
                summary = data.summary[:2_000]
                if data.outcome is TaskStatus.FAILED and _LIMIT_WORDS.search(summary):
                    self.report(seen, f"the task was closed by a limit: {first_line(summary, 120)}")
            case _:
                pass

    def finish(self, end: End) -> None:
        timeline, totals = end.timeline, end.timeline.totals
        used = totals.input_tokens + totals.output_tokens
        budget = timeline.token_budget
        if budget is not None and used > budget and self._last_model is not None:
            self.report(self._last_model, f"{used:,} tokens were used; the budget was {budget:,}")
        for thread, (most, ref) in self._bounds.items():
            story = timeline.threads.get(thread)
            turns = [entry for entry in story.entries if isinstance(entry, Turn)] if story else []
            if len(turns) > most:
                self.report(ref, f"the thread has {len(turns):,} turns; its bound was {most:,}")
        deadline = timeline.deadline_at
        if deadline is not None and timeline.closed_at is None and end.now > deadline:
            self.report_at(
                timeline.last_seq,
                timeline.last_at,
                f"the deadline of the task passed {duration(end.now - deadline)} ago",
            )


class Imbalance(Detector):
    id = "B3"
    name = "imbalance or idle agents"
    kind = FindingKind.HINT
    rule = (
        "Of at least three agents one takes nearly all turns, or some that were invited never "
        "did anything."
    )
    settings = (
        Setting("share", 0.8, "share of the turns, from 0 to 1", 0, 1),
        Setting("min_turns", 10, "turns of the run from which on the share is looked at", 1),
    )

    def finish(self, end: End) -> None:
        timeline = end.timeline
        opened = next(
            (room.opened for room in self.scene.rooms.values() if room.opened is not None), None
        )
        if opened is None or not end.is_over:
            return
        invited = {
            name
            for thread in timeline.threads.values()
            for name, is_in in thread.participants.items()
            if is_in and not timeline.is_outside(name)
        }
        agents = timeline.working_agents()
        idle = sorted(name for name in invited if not _did(timeline.agents.get(name)))
        if idle and len(invited) > 2:
            self.report(
                opened,
                f"invited, and never did anything: {', '.join(idle[:8])}",
                agent=AgentName(idle[0]),
            )
        turns = sum(agent.turns for agent in agents)
        if len(agents) > 2 and turns >= self.count("min_turns"):
            most = max(agents, key=lambda agent: agent.turns)
            if most.turns > turns * self.share("share"):
                self.report(
                    opened,
                    f"{most.agent} took {most.turns} of {turns} turns",
                    agent=most.agent,
                )


def _did(agent: AgentTotals | None) -> bool:
    return agent is not None and bool(agent.events or agent.handled)


class CriticalPath(Detector):
    id = "S1"
    name = "critical path and queueing"
    kind = FindingKind.HINT
    rule = (
        "A mention waited for a busy agent for a large part of the whole run, or one of at least "
        "three agents worked for nearly all of the way that led to the answer."
    )
    settings = (
        Setting("min_wait_s", 5.0, "seconds that a mention may always wait"),
        Setting("wait_share", 0.2, "share of the run that a mention may wait", 0, 1),
        Setting("min_run_s", 60.0, "seconds of a run from which on its path is looked at"),
        Setting("path_share", 0.6, "share of the path that one agent may take", 0, 1),
    )

    def finish(self, end: End) -> None:
        timeline = end.timeline
        whole = max(timeline.duration_ns, 1)
        turns: dict[tuple[EventId, AgentName], Turn] = {}
        for thread in timeline.threads.values():
            for turn in thread.entries:
                if isinstance(turn, Turn):
                    turns[turn.mention, turn.agent] = turn
        for turn in turns.values():
            waited = turn.waited_ns or 0
            if waited <= self.ns("min_wait_s") or waited <= whole * self.share("wait_share"):
                continue
            ref = self.scene.get(turn.mention)
            if ref is None:
                continue
            busy = f", which was busy with {first_line(turn.busy_with, 60)}"
            self.report(
                ref,
                f"the mention waited {duration(waited)} for {turn.agent}"
                + (busy if turn.busy_with else ""),
                agent=turn.agent,
            )
        answer = self.scene.get(timeline.accepted_answer)
        if answer is not None and whole >= self.ns("min_run_s"):
            self._path(answer, turns, end)

    def _path(self, answer: Ref, turns: dict[tuple[EventId, AgentName], Turn], end: End) -> None:
        """Go back from the answer, at each moment to the work that was waited for."""
        settled = {
            request.ref.cause: request.settled
            for request in sorted(
                self.scene.requests.all.values(),
                key=lambda request: 0 if request.settled is None else request.settled.seq,
            )
            if request.settled is not None
        }
        took: dict[AgentName, int] = {}
        at, place = answer.at, answer
        for _ in range(1_000):
            turn = turns.get((place.cause, place.sender)) if place.cause is not None else None
            if turn is None:
                break
            inner = settled.get(turn.mention)
            begun = turn.asked_at
            if inner is not None and begun < inner.at < at:
                took[place.sender] = took.get(place.sender, 0) + at - inner.at
                at, place = inner.at, inner
                continue
            took[place.sender] = took.get(place.sender, 0) + max(at - begun, 0)
            at = min(at, begun)
            asked = self.scene.get(turn.mention)
            if asked is None or asked.seq >= place.seq:
                break
            place = asked
        whole = sum(took.values())
        if whole <= 0 or len(end.timeline.working_agents()) < 3:
            return
        most = max(took, key=lambda name: took[name])
        share = took[most] / whole
        if share > self.share("path_share"):
            self.report(
                answer,
                f"{most} took {duration(took[most])} ({share:.0%}) of the way to the answer",
                agent=most,
            )

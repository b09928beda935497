"""What came to an agent and did not reach what it did: inputs, tool errors, its context."""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.replay.finding import FindingKind
from threadbus.replay.findings.bounded import trim
from threadbus.replay.findings.detector import Detector, End, Setting
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.seen import Seen
from threadbus.replay.findings.texts import admits_failure, likeness, shingles
from threadbus.replay.story import SaidStep, Turn, TurnOutcome
from threadbus.replay.text import first_line
from threadbus.schemas import (
    AgentName,
    AnswerSubmitted,
    AssignmentFinished,
    ContextUsed,
    MessagePosted,
    PlanProposed,
    TaskOpened,
    ThreadId,
    ThreadOpened,
)

_MAX_KEPT: Final = 10_000
_FIRST_MESSAGES: Final = 3


class IgnoredInput(Detector):
    id = "I1"
    name = "ignored input"
    kind = FindingKind.HINT
    rule = (
        "An agent handled a message, an assignment or a proposal to its end, and nothing that it "
        "said or did refers to it; a symptom where it was an assignment."
    )

    def finish(self, end: End) -> None:
        for thread in end.timeline.threads.values():
            for turn in thread.entries:
                if not isinstance(turn, Turn) or turn.outcome is not TurnOutcome.FINISHED:
                    continue
                ref = self.scene.get(turn.mention)
                if ref is None or any(isinstance(step, SaidStep) for step in turn.steps):
                    continue
                self._judge(ref, turn)

    def _judge(self, ref: Ref, turn: Turn) -> None:
        cause = self.scene.get(ref.cause)
        is_answer = cause is not None and cause.sender == turn.agent
        request = self.scene.requests.all.get(ref.id)
        is_open_work = request is not None and request.is_assignment and request.is_open
        if is_open_work or ref.kind == "proposal.made":
            what = "an assignment" if is_open_work else "a proposal"
            self.report(
                ref,
                f"{turn.agent} handled {what} of {ref.sender} without a word about it",
                agent=turn.agent,
                kind=FindingKind.SYMPTOM if is_open_work else None,
            )
        elif ref.kind == "message.posted" and not is_answer:
            self.report(
                ref,
                f"{turn.agent} was told something by {ref.sender} and nothing came of it: "
                f"{first_line(turn.asked, 80)}",
                agent=turn.agent,
            )


class IgnoredToolError(Detector):
    id = "I2"
    name = "ignored tool error"
    kind = FindingKind.SYMPTOM
    rule = (
        "The last tool call before a reply failed, and the reply says nothing of anything that "
        "went wrong."
    )
    needs = (AssignmentFinished, AnswerSubmitted, MessagePosted)

    def see(self, seen: Seen) -> None:
        job = seen.job
        if job is None or job.tool_error is None or not seen.content:
            return
        if isinstance(seen.event.data, MessagePosted) and seen.event.data.awaited:
            return
        if admits_failure(seen.content):
            return
        self.report(
            seen,
            f"{job.agent} replies as if {first_line(job.error_tool, 60)} had not failed just "
            f"before: {first_line(seen.content, 80)}",
            evidence=(job.tool_error.id,),
        )
        job.tool_error = None


class _Thread(msgspec.Struct):
    firsts: list[tuple[int, frozenset[int], Ref]]
    messages: int = 0
    plans: dict[AgentName, Ref] = {}
    told: set[AgentName] = set()


class ConversationReset(Detector):
    id = "C1"
    name = "conversation reset"
    kind = FindingKind.SYMPTOM
    rule = (
        "A thread starts over: a late message repeats one of its first, its planner proposes a "
        "first plan again, or the context of an agent shrinks to a fraction; opening it a second "
        "time is a violation."
    )
    needs = (MessagePosted, TaskOpened, ThreadOpened, PlanProposed, ContextUsed)
    settings = (
        Setting("likeness", 0.8, "how much a message shares with one of the first", 0.1, 1),
        Setting("after", 5, "messages before one can be a restart", 1),
        Setting("min_chars", 40, "shorter messages are not compared"),
        Setting("drop", 0.8, "the share of the events in the context that is too much to lose"),
        Setting("min_events", 10, "smaller contexts are not compared"),
    )

    def begin(self) -> None:
        self._threads: dict[ThreadId, _Thread] = {}
        self._contexts: dict[tuple[AgentName, ThreadId], int] = {}
        self._min_chars = self.count("min_chars")

    def see(self, seen: Seen) -> None:
        event, data = seen.event, seen.event.data
        thread = self._threads.get(event.thread)
        if thread is None:
            thread = self._threads[event.thread] = _Thread([])
            trim(self._threads, _MAX_KEPT)
        match data:
            case TaskOpened() | ThreadOpened():
                opened = self.scene.room(event.thread).opened
                if opened is not None and opened.id != event.id:
                    self.report(
                        seen,
                        f"{event.sender} opens a thread that was open already",
                        evidence=(opened.id,),
                        kind=FindingKind.VIOLATION,
                    )
                elif isinstance(data, TaskOpened):
                    self._message(seen, thread)
            case PlanProposed():
                first = thread.plans.setdefault(event.sender, seen.ref)
                if first is not seen.ref:
                    self.report(
                        seen,
                        f"{event.sender} proposes a first plan again instead of revising the old",
                        evidence=(first.id,),
                    )
            case ContextUsed():
                self._context(seen, data)
            case _:
                self._message(seen, thread)

    def _message(self, seen: Seen, thread: _Thread) -> None:
        event, text = seen.event, seen.content
        thread.messages += 1
        size = min(len(text), 4_000)
        if size < self._min_chars:
            return
        if len(thread.firsts) < _FIRST_MESSAGES and thread.messages <= self.count("after"):
            thread.firsts.append((size, shingles(text), seen.ref))
            return
        if thread.messages <= self.count("after") or event.sender in thread.told:
            return
        pieces: frozenset[int] | None = None
        for length, first, ref in thread.firsts:
            if not 0.8 < size / length < 1.25:
                continue
            pieces = pieces or shingles(text)
            if likeness(pieces, first) >= self.share("likeness"):
                thread.told.add(event.sender)
                self.report(
                    seen,
                    f"{event.sender} begins the conversation anew after {thread.messages} "
                    f"messages: {first_line(text, 80)}",
                    evidence=(ref.id,),
                )
                return

    def _context(self, seen: Seen, data: ContextUsed) -> None:
        event = seen.event
        key = (event.sender, event.thread)
        before = self._contexts.get(key, 0)
        self._contexts[key] = data.events
        trim(self._contexts, _MAX_KEPT)
        if before >= self.count("min_events") and data.events < before * (1 - self.share("drop")):
            self.report(
                seen,
                f"{event.sender} sees {data.events:,} events of the thread; it saw {before:,} in "
                "its turn before",
            )


class HistoryLoss(Detector):
    id = "C2"
    name = "history loss"
    kind = FindingKind.SYMPTOM
    rule = (
        "The context of a turn ends before the very message that the turn answers, or before the "
        "place that the same agent had seen in an earlier turn of the thread."
    )
    needs = (ContextUsed,)

    def begin(self) -> None:
        self._seen: dict[tuple[AgentName, ThreadId], int] = {}

    def see(self, seen: Seen) -> None:
        event, data = seen.event, seen.event.data
        if not isinstance(data, ContextUsed):
            return
        key = (event.sender, event.thread)
        before = self._seen.get(key, 0)
        self._seen[key] = max(before, data.up_to_seq)
        trim(self._seen, _MAX_KEPT)
        mention = self.scene.get(event.cause)
        if mention is not None and data.up_to_seq < mention.seq:
            self.report(
                seen,
                f"{event.sender} works with a context that ends at {data.up_to_seq:,}, before "
                f"what it was asked at {mention.seq:,}",
                evidence=(mention.id,),
            )
        elif data.up_to_seq < before:
            self.report(
                seen,
                f"{event.sender} works with a context that ends at {data.up_to_seq:,}; it had "
                f"seen up to {before:,}",
            )

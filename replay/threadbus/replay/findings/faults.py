"""Errors of tools and models: many, from outside, or of the caller's own making."""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.replay.finding import FindingKind
from threadbus.replay.findings.bounded import trim
from threadbus.replay.findings.detector import Detector, End, Setting
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.seen import Seen
from threadbus.replay.findings.texts import is_malformed, refuses, trouble_of
from threadbus.replay.text import first_line
from threadbus.schemas import (
    AgentName,
    AnswerSubmitted,
    AssignmentFailed,
    AssignmentFinished,
    ErrorInfo,
    EventId,
    HandlingFailed,
    MentionDeadLettered,
    MessagePosted,
    ModelCalled,
    ToolReturned,
)

_MAX_KEPT: Final = 10_000


def _told(error: ErrorInfo) -> str:
    return first_line(f"{error.kind}: {error.message}", 100)


class _Errors(msgspec.Struct):
    calls: int = 0
    errors: int = 0
    last: Ref | None = None


class ErrorBurst(Detector):
    id = "E1"
    name = "burst of errors"
    kind = FindingKind.SYMPTOM
    rule = (
        "An agent gets the same kind of error from the same tool or model several times, or too "
        "large a share of its calls fails."
    )
    needs = (ToolReturned, ModelCalled)
    settings = (
        Setting("times", 3, "errors of one kind", 2),
        Setting("share", 0.3, "share of an agent's tool calls that fail, from 0 to 1", 0, 1),
        Setting("min_calls", 5, "calls from which on a share is looked at", 1),
    )

    def begin(self) -> None:
        self._kinds: dict[tuple[AgentName, str, str], list[EventId]] = {}
        self._agents: dict[AgentName, _Errors] = {}
        self._bursts: set[AgentName] = set()

    def see(self, seen: Seen) -> None:
        event, data = seen.event, seen.event.data
        if not isinstance(data, ToolReturned | ModelCalled):
            return
        what = data.tool if isinstance(data, ToolReturned) else data.model
        if isinstance(data, ToolReturned):
            agent = self._agents.setdefault(event.sender, _Errors())
            agent.calls += 1
            if data.error is not None:
                agent.errors += 1
                agent.last = seen.ref
        if data.error is None:
            return
        key = (event.sender, what, data.error.kind)
        ids = self._kinds.setdefault(key, [])
        ids.append(event.id)
        trim(self._kinds, _MAX_KEPT)
        if len(ids) == self.count("times"):
            self._bursts.add(event.sender)
            self.report(
                seen,
                f"{first_line(what, 60)} fails for {event.sender} {len(ids)} times in the same "
                f"way: {_told(data.error)}",
                evidence=ids[:-1],
            )
        del ids[self.count("times") + 1 :]

    def finish(self, end: End) -> None:
        for name, agent in self._agents.items():
            if agent.last is None or name in self._bursts or agent.calls < self.count("min_calls"):
                continue
            if agent.errors > agent.calls * self.share("share"):
                self.report(
                    agent.last,
                    f"{agent.errors} of {agent.calls} tool calls of {name} failed",
                )


class Refused(Detector):
    id = "E2"
    name = "refusal, rate limit or timeout"
    kind = FindingKind.SYMPTOM
    rule = (
        "A model, a tool or an attempt ends by a content filter, a refusal, a rate limit or a "
        "time limit, or a reply says that it was refused; not the agent's own fault."
    )
    needs = (
        ModelCalled,
        ToolReturned,
        HandlingFailed,
        MessagePosted,
        AssignmentFinished,
        AnswerSubmitted,
    )
    settings = (Setting("max_chars", 1_500, "longer replies are not searched for a refusal"),)

    def begin(self) -> None:
        self._max_chars = self.count("max_chars")

    def see(self, seen: Seen) -> None:
        sender, data = seen.event.sender, seen.event.data
        match data:
            case ModelCalled() | ToolReturned() | HandlingFailed():
                error = data.error
                if isinstance(data, ModelCalled) and data.finish_reason == "content_filter":
                    self.report(seen, f"a content filter stopped the model of {sender}")
                elif error is not None:
                    text = f"{error.kind}: {error.message}"
                    trouble = trouble_of(text)
                    if trouble:
                        self.report(seen, f"{sender} ran into {trouble}: {_told(error)}")
            case _:
                text = seen.content
                if len(text) <= self._max_chars and refuses(text):
                    self.report(
                        seen,
                        f"{sender} tells of a refusal or content filter: {first_line(text, 100)}",
                    )


class MalformedCall(Detector):
    id = "E3"
    name = "malformed call"
    kind = FindingKind.SYMPTOM
    rule = "A tool was called that does not exist, or with arguments that it does not take."
    needs = (ToolReturned,)

    def see(self, seen: Seen) -> None:
        data = seen.event.data
        if not isinstance(data, ToolReturned) or data.error is None:
            return
        if is_malformed(f"{data.error.kind} {data.error.message}"):
            called = () if seen.ref.about is None else (seen.ref.about,)
            self.report(
                seen,
                f"{seen.event.sender} calls {first_line(data.tool, 60)} in a form that it does not "
                f"take: {_told(data.error)}",
                evidence=called,
            )


class GivenUp(Detector):
    id = "F2"
    name = "dead letter"
    kind = FindingKind.SYMPTOM
    rule = "An agent gave a mention or an assignment up: after its last attempt, or at once."
    needs = (MentionDeadLettered, AssignmentFailed)

    def begin(self) -> None:
        self._failed: dict[EventId, Ref] = {}

    def see(self, seen: Seen) -> None:
        data = seen.event.data
        if not isinstance(data, MentionDeadLettered | AssignmentFailed):
            return
        about = seen.ref.about or seen.event.cause
        if about is None or about in self._failed:
            # The dead letter of an assignment follows its failure.
            return
        self._failed[about] = seen.ref
        trim(self._failed, _MAX_KEPT)
        self.report(seen, f"{seen.event.sender} gives up: {_told(data.error)}", evidence=(about,))


class FailedAttempt(Detector):
    id = "F5"
    name = "failed attempt"
    kind = FindingKind.HINT
    rule = (
        "An attempt to handle a mention failed; what was cut off by the end of the task or by a "
        "stop of the agent is left out."
    )
    needs = (HandlingFailed,)
    settings = (
        Setting(
            "ignore",
            ("Aborted", "TaskEndedError", "ThreadClosedError"),
            "kinds of errors that are no fault",
        ),
    )

    def see(self, seen: Seen) -> None:
        data = seen.event.data
        if not isinstance(data, HandlingFailed) or data.error.kind in self.words("ignore"):
            return
        cause = () if seen.event.cause is None else (seen.event.cause,)
        again = "" if data.retry_in_ns is None else " and is tried again"
        self.report(
            seen,
            f"attempt {data.attempt} of {seen.event.sender} failed{again}: {_told(data.error)}",
            evidence=cause,
        )

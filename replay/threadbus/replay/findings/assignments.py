"""Work that is given away: twice, without waiting for it, or past the one who has it."""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.replay.finding import FindingKind
from threadbus.replay.findings.bounded import trim
from threadbus.replay.findings.detector import Detector, End, Setting
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.requests import Request
from threadbus.replay.findings.scene import Scene
from threadbus.replay.findings.seen import Seen
from threadbus.replay.text import duration, first_line
from threadbus.schemas import AgentName, AssignmentMade, MessagePosted, ModelCalled, ThreadId

_MAX_KEPT: Final = 1_000
_LEAST_CHARS: Final = 20
_FAN_OUT = Setting(
    "fan_out_s",
    1.0,
    "the same work for several agents, given within so many seconds in one turn and before any of "
    "them has begun, is meant so",
)


def earlier(scene: Scene, request: Request, fan_out_ns: int) -> Request | None:
    """Return what the same agent asked for before, if it is the same and not meant for several."""
    other = scene.requests.same(request)
    if other is None or other.ref.seq >= request.ref.seq:
        return None
    is_fan_out = (
        other.to != request.to
        and not _is_taken_up(other)
        and other.ref.cause == request.ref.cause
        and request.ref.at - other.ref.at <= fan_out_ns
    )
    return None if is_fan_out else other


def _is_taken_up(request: Request) -> bool:
    """Whether it has been seen that the agent works on it; a receipt of a busy one is no work."""
    sign = request.last_sign
    return sign is not None and sign.kind != "mention.received"


class RepeatedAssignment(Detector):
    id = "RA"
    name = "repetition after asynchronous assignment"
    kind = FindingKind.SYMPTOM
    rule = (
        "Work that was assigned without waiting, and is still open, is asked for again, of the "
        "same agent or of another one; or somebody else, who does not have it, gives it away, too."
    )
    needs = (AssignmentMade, MessagePosted)
    settings = (_FAN_OUT,)

    def begin(self) -> None:
        self._fan_out_ns = self.ns("fan_out_s")
        self._given: dict[tuple[ThreadId, str], Request] = {}

    def see(self, seen: Seen) -> None:
        for request in seen.asks:
            other = earlier(self.scene, request, self._fan_out_ns) or self._given_by(request)
            if request.is_async and len(request.flat) >= _LEAST_CHARS:
                self._given[request.thread, request.flat] = request
                trim(self._given, _MAX_KEPT)
            if other is None or not (other.is_async and other.is_open):
                continue
            whom = "the same agent" if other.to == request.to else request.to
            self.report(
                seen,
                f"{request.asker} asks {whom} again for work that {other.to} has had for "
                f"{duration(request.ref.at - other.ref.at)}: {first_line(request.content, 80)}",
                evidence=(other.id,),
            )

    def _given_by(self, request: Request) -> Request | None:
        """Return the same work as somebody else gave it away, who is not asked for it here."""
        other = self._given.get((request.thread, request.flat))
        if other is None or not request.is_assignment or other.asker == request.asker:
            return None
        # Whoever has the work may pass it down, and whoever gave it away may get it back.
        return None if request.asker == other.to or request.to == other.asker else other


class _Waiting(msgspec.Struct):
    inputs: int
    messages: int = 0
    tokens: int = 0
    is_told: bool = False


class NoPause(Detector):
    id = "PT"
    name = "no pause after asynchronous assignment"
    kind = FindingKind.SYMPTOM
    rule = (
        "Whoever assigned work without waiting goes on talking in the thread, about nothing else "
        "that is open, before anything has come back."
    )
    needs = (MessagePosted, ModelCalled)
    settings = (Setting("messages", 2, "messages that are too many", 1),)

    def begin(self) -> None:
        self._waiting: dict[tuple[AgentName, ThreadId], _Waiting] = {}
        self._messages = self.count("messages")

    def see(self, seen: Seen) -> None:
        event, data = seen.event, seen.event.data
        key = (event.sender, event.thread)
        if isinstance(data, ModelCalled):
            state = self._waiting.get(key)
            if state is not None:
                state.tokens += data.input_tokens + data.output_tokens
            return
        waits = self._open(event.sender, event.thread)
        if not waits or not isinstance(data, MessagePosted) or data.awaited:
            self._waiting.pop(key, None)
            return
        cause = seen.cause
        concerns_other = (
            cause is not None
            and cause.sender != event.sender
            and cause.id not in {request.ref.cause for request in waits}
        )
        if concerns_other:
            return
        inputs = self.scene.inputs.get(event.sender, 0)
        state = self._waiting.get(key)
        if state is None or state.inputs != inputs:
            state = self._waiting[key] = _Waiting(inputs)
            trim(self._waiting, _MAX_KEPT)
        state.messages += 1
        if state.messages >= self._messages and not state.is_told:
            state.is_told = True
            spent = f" and {state.tokens:,} tokens" if state.tokens else ""
            self.report(
                seen,
                f"{event.sender} has assigned work to {waits[0].to} and goes on talking instead "
                f"of waiting: {state.messages} messages{spent} so far",
                evidence=tuple(request.id for request in waits[:3]),
            )

    def _open(self, agent: AgentName, thread: ThreadId) -> list[Request]:
        return [
            request
            for request in self.scene.requests.of(agent)
            if request.is_async and request.is_open and request.thread == thread
        ]


class _Bypass(msgspec.Struct):
    old: Request
    new: Request
    sign: Ref | None


class LatencyBypass(Detector):
    id = "LB"
    name = "latency bypass"
    kind = FindingKind.SYMPTOM
    rule = (
        "A request is put to another agent before the first one has replied, although the first "
        "one is alive: it works on it, or replies later. After a failure it is a failover and all "
        "right."
    )
    needs = (AssignmentMade, MessagePosted)
    settings = (
        _FAN_OUT,
        Setting("alive_s", 60.0, "seconds since its last sign for which an agent counts as alive"),
    )

    def begin(self) -> None:
        self._fan_out_ns = self.ns("fan_out_s")
        self._alive_ns = self.ns("alive_s")
        self._found: list[_Bypass] = []

    def see(self, seen: Seen) -> None:
        for request in seen.asks:
            other = earlier(self.scene, request, self._fan_out_ns)
            if other is None or other.to == request.to or other.is_dead:
                continue
            if len(self._found) < _MAX_KEPT:
                self._found.append(_Bypass(other, request, other.last_sign))

    def finish(self, end: End) -> None:
        for found in self._found:
            old, new = found.old, found.new
            last, before = old.last_sign, found.sign
            is_later = last is not None and last.seq > new.ref.seq
            is_busy = before is not None and new.ref.at - before.at <= self._alive_ns
            if not (is_later or is_busy):
                continue
            sign = "worked on it then" if is_busy else "was alive"
            if old.settled is not None and old.settled.seq > new.ref.seq:
                sign = "replied later" if old.settled.sender == old.to else sign
            self.report(
                new.ref,
                f"{new.asker} passes {old.to} over and asks {new.to} after "
                f"{duration(new.ref.at - old.ref.at)}, but {old.to} {sign}: "
                f"{first_line(new.content, 80)}",
                evidence=(old.id,) if old.settled is None else (old.id, old.settled.id),
            )

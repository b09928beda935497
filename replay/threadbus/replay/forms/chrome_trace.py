"""Trace events (JSON): a process for each agent, its threads as tracks, calls nested in turns.

Viewers of Chrome traces (Perfetto, vizviewer) open it. Times are microseconds since the opening.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from threadbus.replay.forms.flat import Act, Flat, end_of, start_of
from threadbus.replay.forms.options import FormOptions
from threadbus.replay.story import ModelStep, Timeline, ToolStep, Turn
from threadbus.replay.text import first_line, neutral
from threadbus.replay.words import thread_name, words_of
from threadbus.schemas import AgentName, ThreadId

_US: Final = 1_000
_NAME_CHARS: Final = 80
_CALLS: Final = -1
"""The first track of calls that lie beside those of their turn, or outside of any; then -2…"""
_ASKS: Final = -1_000_000
"""The track of what is asked outside of turns."""
_Event: TypeAlias = "dict[str, object]"
_JSON: Final = msgspec.json.Encoder()


def write(timeline: Timeline, options: FormOptions) -> Iterator[str]:
    """Write *timeline* as a JSON object of trace events, one on each line.

    Args:
        timeline: the run, or a part of it.
        options: what else is to know.
    """
    yield '{"displayTimeUnit":"ms","otherData":'
    yield _text({"task": timeline.task or "", "title": neutral(timeline.title)})
    yield ',"traceEvents":[\n'
    for number, event in enumerate(_Trace(Flat(timeline, options.selection)).events()):
        yield f",\n{_text(event)}" if number else _text(event)
    yield "\n]}\n"


def _text(event: _Event) -> str:
    return _JSON.encode(event).decode()


class _Trace:
    def __init__(self, flat: Flat) -> None:
        self._flat = flat
        self._timeline = flat.timeline
        self._processes = {name: number for number, name in enumerate(flat.agents(), 1)}
        self._tracks: dict[tuple[AgentName, ThreadId, int], int] = {}
        self._busy: dict[tuple[AgentName, ThreadId], list[int]] = {}
        self._of_turn: dict[int, int] = {}
        self._bounds: dict[int, tuple[int, int]] = {}
        self._by_id = {act.step.id: act for act in flat.acts}
        self._asked: set[tuple[int, int]] = set()
        self._open: dict[int, list[int]] = {}

    def events(self) -> Iterator[_Event]:
        """Write turns, calls, arrows from mentions, and findings; names of tracks last."""
        for name, process in self._processes.items():
            yield self._meta("process_name", process, 0, {"name": name})
            yield self._meta("process_sort_index", process, 0, {"sort_index": process})
        for number, turn in enumerate(self._by_start(), 1):
            yield from self._turn(turn, number)
        for act in sorted(self._flat.acts, key=lambda act: (self._span(act)[0], act.step.seq)):
            yield self._step(act)
        for finding in self._flat.findings:
            agent = finding.agent or next(iter(self._processes), AgentName("run"))
            thread = finding.thread or ThreadId("main")
            yield {
                "name": first_line(f"⚠ {finding.detector} {finding.name}", _NAME_CHARS),
                "cat": f"finding,{finding.kind.value}",
                "ph": "i",
                "s": "p",
                "ts": self._at(finding.at),
                "pid": self._processes.get(agent, 1),
                "tid": self._track(agent, thread, 0),
                "args": {"seq": finding.seq, "text": neutral(finding.text)},
            }
        for (agent, thread, lane), track in self._tracks.items():
            more = f" ({lane + 1})" if lane > 0 else f" (calls {-lane})" if lane < 0 else ""
            more = " (asks)" if lane == _ASKS else more
            title = f"{first_line(thread_name(self._timeline, thread), 60)}{more}"
            process = self._processes.get(agent, 1)
            yield self._meta("thread_name", process, track, {"name": title})

    def _by_start(self) -> list[Turn]:
        return sorted(self._flat.turns, key=lambda turn: (start_of(turn), turn.seq))

    def _turn(self, turn: Turn, number: int) -> Iterator[_Event]:
        start, end = start_of(turn), end_of(turn, self._timeline)
        if not start or (not turn.has_begun and self._timeline.is_outside(turn.agent)):
            return
        lane = self._lane(turn, start, end)
        track = self._track(turn.agent, turn.thread, lane)
        self._of_turn[id(turn)] = track
        self._bounds[id(turn)] = (start, end)
        process = self._processes[turn.agent]
        who = turn.woken_by or "a mention that is not in this log"
        yield {
            "name": f"{turn.agent} ← {who}" if turn.has_begun else f"waits for {turn.agent}",
            "cat": "turn" if turn.has_begun else "waiting",
            "ph": "X",
            "ts": self._at(start),
            "dur": round(self._at(end) - self._at(start), 3),
            "pid": process,
            "tid": track,
            "args": {
                "seq": turn.seq,
                "outcome": turn.outcome.value,
                "asked": neutral(turn.asked),
                "waited_ms": (turn.waited_ns or 0) / 1e6,
                "worked_ms": (turn.worked_ns or 0) / 1e6,
                "tokens_in": turn.input_tokens,
                "tokens_out": turn.output_tokens,
            },
        }
        yield from self._arrow(turn, number, track)

    def _arrow(self, turn: Turn, number: int, track: int) -> Iterator[_Event]:
        """Draw the mention, from what its sender was doing to the turn that it woke."""
        asker = turn.woken_by
        if asker is None or asker not in self._processes or not turn.asked_at:
            return
        act = self._by_id.get(turn.mention)
        at, source = turn.asked_at, None
        if act is not None and act.turn is not None:
            source = self._of_turn.get(id(act.turn))
            at = self._span(act)[0]
        if source is None:
            # An arrow begins in a span only, and who asks outside of a turn has none. Each whole
            # microsecond has one such span at most, so that they never overlap.
            source = self._track(asker, turn.thread, _ASKS)
            at = self._flat.start + max(at - self._flat.start, 0) // _US * _US
            if (source, at) not in self._asked:
                self._asked.add((source, at))
                name = first_line(turn.asked, _NAME_CHARS) or "asks"
                asks: _Event = {"name": name, "cat": "said", "ph": "X", "dur": 1}
                yield self._part(asker, source, at, asks)
        arrow: _Event = {"name": "mention", "cat": "mention", "id": number}
        yield self._part(asker, source, at, {**arrow, "ph": "s"})
        yield self._part(turn.agent, track, start_of(turn), {**arrow, "ph": "f", "bp": "e"})

    def _part(self, agent: AgentName, track: int, at: int, event: _Event) -> _Event:
        return {**event, "ts": self._at(at), "pid": self._processes[agent], "tid": track}

    def _step(self, act: Act) -> _Event:
        step, turn = act
        start, end = self._span(act)
        words = words_of(step, self._timeline)
        own = None if turn is None else self._of_turn.get(id(turn))
        event: _Event = {
            "name": first_line(words.verb, _NAME_CHARS),
            "cat": str(step.__struct_config__.tag),
            "ts": self._at(start),
            "pid": self._processes[step.agent],
            "args": {"seq": step.seq, "text": neutral(words.text), "facts": list(words.facts)},
        }
        if isinstance(step, ModelStep | ToolStep):
            track = self._free(step, own, start, end)
            return {
                **event,
                "ph": "X",
                "dur": round(self._at(end) - self._at(start), 3),
                "tid": track,
            }
        track = self._track(step.agent, step.thread, 0) if own is None else own
        return {**event, "ph": "i", "s": "t", "tid": track}

    def _span(self, act: Act) -> tuple[int, int]:
        """Return when a step began and ended, within its turn: other clocks may differ a little."""
        step, turn = act
        start = end = step.at
        if isinstance(step, ModelStep):
            start = step.at - step.duration_ns
        elif isinstance(step, ToolStep):
            end = step.at + (step.duration_ns or 0)
        bounds = None if turn is None else self._bounds.get(id(turn))
        if bounds is not None:
            low, high = bounds
            start, end = min(max(start, low), high), min(max(end, low), high)
        return start, end

    def _free(self, step: ModelStep | ToolStep, own: int | None, start: int, end: int) -> int:
        """Return a track on which a call lies beside or inside the others: *own* if it can be.

        Viewers draw only what is nested.
        """
        lane = _CALLS
        track = own
        while True:
            if track is None:
                track = self._track(step.agent, step.thread, lane)
                lane -= 1
            ends = self._open.setdefault(track, [])
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or ends[-1] >= end:
                ends.append(end)
                return track
            track = None

    def _lane(self, turn: Turn, start: int, end: int) -> int:
        """Return the first track of the agent and thread on which no other turn is running."""
        lanes = self._busy.setdefault((turn.agent, turn.thread), [])
        for number, until in enumerate(lanes):
            if until <= start:
                lanes[number] = end
                return number
        lanes.append(end)
        return len(lanes) - 1

    def _track(self, agent: AgentName, thread: ThreadId, lane: int) -> int:
        # A track of the number of its process would count as the main one.
        first = len(self._processes) + 1
        return self._tracks.setdefault((agent, thread, lane), first + len(self._tracks))

    def _at(self, at: int) -> float:
        """Return a time as the trace has it; what lies before its beginning is cut off."""
        return max(at - self._flat.start, 0) / _US

    def _meta(self, name: str, process: int, track: int, args: _Event) -> _Event:
        return {"name": name, "ph": "M", "pid": process, "tid": track, "args": args}

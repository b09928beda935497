"""The fold: events in, the story of the run out. Pure, incremental, constant time for each event.

It takes what comes: part of a log, events out of order, causes that are missing, types that it
does not know, clocks that disagree. An event whose id has been seen counts once; the first wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from threadbus.replay.condense import Condenser
from threadbus.replay.prices import Prices
from threadbus.replay.records import Records, count_name
from threadbus.replay.steps import (
    MAX_EXCERPT_CHARS,
    MAX_FAULT_CHARS,
    cut,
    failure_step,
    finish_tool,
    model_step,
    ns,
    said_step,
    tool_step,
)
from threadbus.replay.story import (
    AgentTotals,
    AnyStep,
    Entry,
    ModelStep,
    SaidStep,
    Timeline,
    ToolStep,
    Turn,
    Unreadable,
)
from threadbus.replay.turns import Known, TurnIndex, is_reply, note_handling, note_reply
from threadbus.schemas import (
    AgentName,
    AgentThrottled,
    ContextUsed,
    Event,
    EventClass,
    EventId,
    HandlingEnded,
    HandlingFailed,
    HandlingStarted,
    MentionDeadLettered,
    MentionReceived,
    MentionStored,
    ModelCalled,
    OpaqueData,
    Recorded,
    Rejected,
    TaskForked,
    ToolCalled,
    ToolReturned,
)

MAX_UNREADABLE_KEPT: Final = 100
"""Entries that cannot be read of which the reason is kept; all are counted."""

FULL_TEXT_CHARS: Final = 1_000_000
"""Characters that are kept of one text where texts are kept in full."""

FULL_CHARS: Final = 50_000_000
"""Characters that are kept in full in all; what comes later is cut like everything else."""

MAX_RUNNING: Final = 10_000

_ASKED_CHARS: Final = 120


class TimelineFold:
    """Builds a :class:`~threadbus.replay.story.Timeline` from one super-task's log.

    Args:
        prices: what models cost; without them nothing has a cost.
        most: turns and steps that are held at most; of a longer run, what is old and settled is
            counted and not kept (see :mod:`threadbus.replay.condense`). All of it without.
        full: whether texts are kept in full, not only their beginning.
    """

    def __init__(
        self, *, prices: Prices | None = None, most: int | None = None, full: bool = False
    ) -> None:
        self.timeline = Timeline(currency="" if prices is None else prices.currency)
        """The story so far; each call of :meth:`apply` changes it in place."""
        self.running: set[tuple[EventId, AgentName]] = set()
        """Mention and agent of each turn that has begun and is not known to have ended."""
        self._index = TurnIndex()
        self._tools: dict[tuple[AgentName, str], ToolStep] = {}
        self._records = Records(self.timeline)
        self._condenser = Condenser(self.timeline, self._index, most)
        self._prices = prices
        self._full_chars = FULL_CHARS if full else 0

    def apply(self, item: Recorded | Rejected) -> Entry | None:
        """Take the next entry of the log.

        The first event says which super-task this is about.

        Returns:
            What the entry added or changed: a step, or the turn whose state it tells; nothing for
            what does not count (unreadable, repeated, or of another super-task).
        """
        timeline = self.timeline
        totals = timeline.totals
        if isinstance(item, Rejected):
            totals.unreadable += 1
            if len(timeline.unreadable) < MAX_UNREADABLE_KEPT:
                reason = cut(item.reason, MAX_FAULT_CHARS).text
                timeline.unreadable.append(Unreadable(item.seq, cut(item.subject).text, reason))
            return None
        event = item.event
        if timeline.task is None:
            timeline.task = event.task
        elif event.task != timeline.task:
            totals.foreign += 1
            return None
        if self._index.has_seen(event.id):
            totals.duplicates += 1
            return None
        totals.events += 1
        # A copy stands where its original stood, also in time.
        origin = event.copy_of
        stored_at = ns(item.stored_at if origin is None else origin.at)
        at = stored_at or ns(event.at)
        timeline.first_at = min(timeline.first_at or at, at)
        timeline.last_at = max(timeline.last_at, at)
        timeline.last_seq = max(timeline.last_seq, item.seq)
        entry = self._take(item.seq, at, stored_at, event)
        if origin is not None:
            self._records.note_copy(at)
        elif isinstance(event.data, TaskForked):
            self._index.wake_again(at, event.data)
        if self._full_chars and isinstance(entry, SaidStep | ModelStep | ToolStep):
            self._full_chars = max(self._full_chars - len(entry.text), 0)
        if self._condenser.is_due:
            self._condense()
        return entry

    def apply_all(self, items: Iterable[Recorded | Rejected]) -> Timeline:
        """Take every one of *items* and return the story."""
        for item in items:
            self.apply(item)
        return self.timeline

    def _condense(self) -> None:
        cutoff = self._condenser.condense()
        self._tools = {key: step for key, step in self._tools.items() if step.seq >= cutoff}
        if len(self.running) > MAX_RUNNING:
            self.running = {key for key in self.running if self._index.get(*key) is not None}

    @property
    def _text_chars(self) -> int:
        return FULL_TEXT_CHARS if self._full_chars else MAX_EXCERPT_CHARS

    def _take(self, seq: int, at: int, stored_at: int, event: Event) -> Entry | None:
        turn = self._index.find(event)
        if turn is None:
            turn = self._index.adopt(seq, event)
            if turn is not None:
                self._add_turn(turn)
        self._index.known[event.id] = Known(event.sender, event.thread, seq, at, event.cause, turn)
        agent = self._agent(event.sender)
        agent.events += 1
        if event.event_class is EventClass.OBS:
            entry = self._observe(seq, at, stored_at, event, turn, agent)
        else:
            entry = self._say(seq, at, event, turn)
        woken_here = () if isinstance(event.data, TaskForked) else event.addressees
        if woken_here:
            asked = entry.text[:_ASKED_CHARS] if isinstance(entry, SaidStep) else ""
            for name in woken_here:
                woken = self._index.wake(seq, at, event, name, asked)
                if woken is not None:
                    self._add_turn(woken)
        return entry

    def _say(self, seq: int, at: int, event: Event, turn: Turn | None) -> SaidStep:
        step = said_step(seq, at, event, self._text_chars)
        if turn is not None and is_reply(turn, event):
            step.is_reply = True
            note_reply(turn, at)
        if event.event_class is EventClass.MSG:
            self.timeline.totals.messages += 1
            self._agent(event.sender).messages += 1
        self._records.note(step, event)
        self._place(step, turn)
        return step

    def _observe(
        self,
        seq: int,
        at: int,
        stored_at: int,
        event: Event,
        turn: Turn | None,
        agent: AgentTotals,
    ) -> Entry | None:
        data = event.data
        match data:
            case ModelCalled():
                agent.handled += 1
                if turn is not None and turn.is_running:
                    self.running.add((turn.mention, turn.agent))
                step = model_step(seq, at, event, data, self._text_chars)
                self._count_model(step, turn, agent)
                self._place(step, turn)
                return step
            case ToolCalled() | ToolReturned():
                agent.handled += 1
                return self._tool(seq, at, event, data, turn, agent)
            case MentionStored():
                return self._note_stored(event, data)
            case (
                MentionReceived()
                | HandlingStarted()
                | HandlingEnded()
                | HandlingFailed()
                | MentionDeadLettered()
                | ContextUsed()
            ):
                return self._handling(seq, at, stored_at, event, turn, agent)
            case AgentThrottled() | OpaqueData():
                return self._say(seq, at, event, turn)
            case _:
                return None

    def _handling(
        self,
        seq: int,
        at: int,
        stored_at: int,
        event: Event,
        turn: Turn | None,
        agent: AgentTotals,
    ) -> Entry | None:
        agent.handled += 1
        if turn is not None:
            waited, worked = turn.waited_ns or 0, turn.worked_ns or 0
            note_handling(turn, at, event, stored_at)
            agent.waited_ns += (turn.waited_ns or 0) - waited
            agent.worked_ns += (turn.worked_ns or 0) - worked
            if turn.is_running:
                self.running.add((turn.mention, turn.agent))
            else:
                self.running.discard((turn.mention, turn.agent))
        data = event.data
        if not isinstance(data, HandlingFailed | MentionDeadLettered):
            return turn
        failure = failure_step(seq, at, event, data)
        if failure.gave_up:
            self.timeline.totals.dead_letters += 1
        else:
            self.timeline.totals.failures += 1
            agent.failures += 1
        self._place(failure, turn)
        return failure

    def _tool(
        self,
        seq: int,
        at: int,
        event: Event,
        data: ToolCalled | ToolReturned,
        turn: Turn | None,
        agent: AgentTotals,
    ) -> ToolStep:
        key = (event.sender, f"{event.cause}:{data.call_id}")
        totals = self.timeline.totals
        step = self._tools.pop(key, None) if isinstance(data, ToolReturned) else None
        if step is None:
            step = tool_step(seq, at, event, data, self._text_chars)
            totals.tool_calls += 1
            agent.tool_calls += 1
            self._place(step, turn)
        elif isinstance(data, ToolReturned):
            finish_tool(step, data, self._text_chars)
        if isinstance(data, ToolCalled):
            self._tools[key] = step
        elif data.error is not None:
            totals.tool_errors += 1
            agent.tool_errors += 1
        return step

    def _note_stored(self, event: Event, data: MentionStored) -> Turn | None:
        turn = None
        for name in data.agents:
            if event.cause is not None:
                found = self._index.get(event.cause, AgentName(name))
                if found is not None:
                    found.was_stored = True
                    turn = found
        return turn

    def _count_model(self, step: ModelStep, turn: Turn | None, agent: AgentTotals) -> None:
        totals = self.timeline.totals
        totals.model_calls += 1
        totals.playbook_calls += step.is_playbook
        totals.input_tokens += step.input_tokens
        totals.output_tokens += step.output_tokens
        totals.cached_tokens += step.cached_tokens
        agent.model_calls += 1
        agent.model_ns += step.duration_ns
        agent.input_tokens += step.input_tokens
        agent.output_tokens += step.output_tokens
        if turn is not None:
            turn.input_tokens += step.input_tokens
            turn.output_tokens += step.output_tokens
        if self._prices is not None and not step.is_playbook:
            self._price(step, turn, agent, self._prices)

    def _price(
        self, step: ModelStep, turn: Turn | None, agent: AgentTotals, prices: Prices
    ) -> None:
        timeline = self.timeline
        price = prices.find(step.model)
        if price is None:
            timeline.totals.unpriced_calls += 1
            count_name(timeline.unpriced, step.model)
            return
        step.cost = price.of(step.input_tokens, step.output_tokens, step.cached_tokens)
        timeline.totals.cost += step.cost
        agent.cost += step.cost
        if turn is not None:
            turn.cost += step.cost

    def _agent(self, name: AgentName) -> AgentTotals:
        agents = self.timeline.agents
        totals = agents.get(name)
        if totals is None:
            totals = agents[name] = AgentTotals(agent=name)
        return totals

    def _add_turn(self, turn: Turn) -> None:
        self.timeline.totals.turns += 1
        self._agent(turn.agent).turns += 1
        self._condenser.held += 1
        self._records.thread(turn.thread).entries.append(turn)

    def _place(self, step: AnyStep, turn: Turn | None) -> None:
        if turn is not None:
            turn.steps.append(step)
            self._condenser.held += 1
        if turn is None or turn.thread != step.thread:
            self._records.thread(step.thread).entries.append(step)
            self._condenser.held += 1


def fold(items: Iterable[Recorded | Rejected]) -> Timeline:
    """Return the story that *items*, the log of one super-task, tell."""
    return TimelineFold().apply_all(items)

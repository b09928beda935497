"""The story of one run as data: threads, turns, steps, totals. ``--format json`` prints it.

Times are nanoseconds since the epoch, by the server's clock where it is known; durations are
nanoseconds and never negative. Texts are cut (``chars`` says how long they were) but otherwise as
they came: whoever shows them makes them harmless first (:func:`threadbus.replay.text.neutral`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from threadbus.replay.finding import Finding, Judgement, Suspect
from threadbus.replay.kept import Answer, Artifact, Assignment, Fork, InputRequest, Plan, Proposal
from threadbus.schemas import AgentName, EventId, TaskId, ThreadId

FORMAT: Final = "threadbus.timeline/1"
"""What ``format`` says in the JSON document; the number rises when a field changes meaning."""


class TurnOutcome(StrEnum):
    """What came of one mention."""

    OPEN = "open"
    """Neither answered nor given up: it waits, or the agent works on it."""
    REPLIED = "replied"
    """The agent answered."""
    FINISHED = "finished"
    """The handler ended without an answer, which may be all that was needed."""
    FAILED = "failed"
    """The last attempt failed; another one may follow."""
    DEAD_LETTERED = "dead_lettered"
    """The agent gave it up."""


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as an event told it."""

    kind: str
    message: str


class Step(msgspec.Struct, kw_only=True, tag_field="kind", omit_defaults=True):
    """One thing that an agent did."""

    seq: int
    id: EventId
    at: int
    agent: AgentName
    thread: ThreadId
    cause: EventId | None = None


class ModelStep(Step, kw_only=True, tag="model", omit_defaults=True):
    """A call of a model."""

    model: str
    system: str = ""
    """Who answered; ``playbook`` when no model did."""
    started_at: int = 0
    duration_ns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    attempts: int = 1
    finish_reason: str = ""
    tool_calls: int = 0
    cost: float | None = None
    """By the table of prices; absent where there is none, or no price in it."""
    text: str = ""
    chars: int = 0
    error: Fault | None = None

    @property
    def is_playbook(self) -> bool:
        """Whether a playbook answered instead of a model."""
        return self.system == "playbook"


class ToolStep(Step, kw_only=True, tag="tool", omit_defaults=True):
    """A call of a tool, with what it returned once it has."""

    tool: str
    call_id: str
    arguments: str = ""
    """As a person would write them: ``path="a.csv", limit=10``; long values are cut."""
    returned: bool = False
    duration_ns: int | None = None
    text: str = ""
    chars: int = 0
    error: Fault | None = None


class SaidStep(Step, kw_only=True, tag="said", omit_defaults=True):
    """Everything else: messages, plans, assignments, votes, threads, artifacts, answers."""

    type: str
    to: tuple[AgentName, ...] = ()
    """The agents that this woke."""
    is_reply: bool = False
    text: str = ""
    chars: int = 0
    about: str = ""
    """What it is about: the id of an event, the id of a thread, or an agent."""
    verdict: str = ""
    """The word that decides: a verdict, status, outcome, state or mode."""
    items: tuple[str, ...] = ()
    """Steps of a plan, reasons, participants, voters."""


class FailureStep(Step, kw_only=True, tag="failure", omit_defaults=True):
    """An attempt that failed, or the mention given up."""

    attempt: int
    error: Fault
    retry_in_ns: int | None = None
    gave_up: bool = False


AnyStep: TypeAlias = ModelStep | ToolStep | SaidStep | FailureStep


class Turn(msgspec.Struct, kw_only=True, tag_field="kind", tag="turn", omit_defaults=True):
    """One mention and what the mentioned agent made of it."""

    agent: AgentName
    mention: EventId
    seq: int
    """Of the mention; of the first event that speaks of it where the mention is not in the log."""
    thread: ThreadId
    asked_at: int = 0
    woken_by: AgentName | None = None
    asked: str = ""
    outcome: TurnOutcome = TurnOutcome.OPEN
    attempt: int = 0
    """The last attempt that the log tells of; 0 when none has begun."""
    replica: str = ""
    received_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    replied_at: int | None = None
    waited_ns: int | None = None
    """From the mention to the start of the work."""
    worked_ns: int | None = None
    """From the start of the work to its end, as the agent measured it."""
    was_stored: bool = False
    """The agent was not running when it was mentioned."""
    queue_depth: int | None = None
    """Mentions that the agent held ahead of this one, where it said so."""
    busy_with: str = ""
    context_events: int | None = None
    context_up_to_seq: int | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0
    steps: list[AnyStep] = []
    left_out_steps: int = 0
    """Steps that are counted and not kept, because the run is so long."""
    left_out_at: int = 0
    """How many of the steps that are kept come before those."""

    @property
    def has_begun(self) -> bool:
        """Whether the agent has done anything about it."""
        return bool(self.attempt or self.steps or self.replied_at)

    @property
    def is_running(self) -> bool:
        """Whether the agent has begun, and nothing says that it has ended."""
        return (
            self.has_begun
            and self.ended_at is None
            and self.outcome in (TurnOutcome.OPEN, TurnOutcome.REPLIED)
        )


Entry: TypeAlias = Turn | ModelStep | ToolStep | SaidStep | FailureStep


class ThreadStory(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One thread: a turn for each mention, and between them what was said outside of turns.

    A step that an agent took in another thread than its turn's is in both: among the turn's
    steps, and here.
    """

    thread: ThreadId
    title: str = ""
    parent: ThreadId | None = None
    opened_by: AgentName | None = None
    """Absent when the opening is not in the log."""
    opened_at: int = 0
    participants: dict[AgentName, bool] = {}
    """Who takes part, in order of joining; false for who was removed again."""
    state: str = ""
    """The state of the conversation, where one was declared."""
    outcome: str = ""
    """How it ended; empty while it is open."""
    summary: str = ""
    closed_by: AgentName | None = None
    closed_at: int | None = None
    entries: list[Entry] = []
    left_out_turns: int = 0
    """Turns that are counted and not kept, because the run is so long."""
    left_out_steps: int = 0
    left_out_at: int = 0
    """How many of the entries that are kept come before those."""


class AgentTotals(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What one agent did in the whole run."""

    agent: AgentName
    turns: int = 0
    waited_ns: int = 0
    worked_ns: int = 0
    events: int = 0
    messages: int = 0
    model_calls: int = 0
    model_ns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0
    tool_calls: int = 0
    tool_errors: int = 0
    failures: int = 0
    handled: int = 0
    """Signs that it works through mentions: receipts, handlings, model and tool calls."""


class Totals(msgspec.Struct, kw_only=True):
    """Counts over the whole run."""

    events: int = 0
    """Events that count: each id once."""
    turns: int = 0
    model_calls: int = 0
    playbook_calls: int = 0
    """Those of the model calls that a playbook answered."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0
    """By the table of prices, of the calls that have a price."""
    unpriced_calls: int = 0
    """Model calls without a price, where a table was given."""
    tool_calls: int = 0
    tool_errors: int = 0
    failures: int = 0
    dead_letters: int = 0
    messages: int = 0
    duplicates: int = 0
    """Events whose id had been in the log before."""
    foreign: int = 0
    """Events of another super-task."""
    unreadable: int = 0


class Unreadable(msgspec.Struct, frozen=True):
    """An entry of the log that is not an event."""

    seq: int
    subject: str
    reason: str


class Timeline(msgspec.Struct, kw_only=True):
    """The whole run."""

    format: str = FORMAT
    task: TaskId | None = None
    title: str = ""
    status: str = "unknown"
    """A task's status, or ``unknown`` when its opening is not in the log."""
    opened_by: AgentName | None = None
    opened_at: int = 0
    question: str = ""
    first_at: int = 0
    last_at: int = 0
    last_seq: int = 0
    closed_by: AgentName | None = None
    closed_at: int | None = None
    summary: str = ""
    token_budget: int | None = None
    deadline_at: int | None = None
    accepted_answer: EventId | None = None
    labels: dict[str, str] = {}
    """What the opener put beside the question, for programs."""
    fork: Fork | None = None
    """What the run is a fork of, if it is one."""
    is_complete: bool = True
    """False when reading stopped early because a limit was reached."""
    left_out: int = 0
    """Turns, steps and records that are counted and not kept, because the run is so long."""
    redacted: str = ""
    """How far texts and names were replaced: ``secrets``, ``texts`` or ``names``; empty: not."""
    currency: str = ""
    """Of the costs; empty where no table of prices was given."""
    totals: Totals = msgspec.field(default_factory=Totals)
    threads: dict[ThreadId, ThreadStory] = {}
    agents: dict[AgentName, AgentTotals] = {}
    requests: dict[EventId, InputRequest] = {}
    assignments: dict[EventId, Assignment] = {}
    proposals: dict[EventId, Proposal] = {}
    artifacts: dict[EventId, Artifact] = {}
    answers: dict[EventId, Answer] = {}
    plans: dict[EventId, Plan] = {}
    """Every version of every plan, in log order."""
    findings: list[Finding] = []
    """What detectors found, in log order; empty where nothing looked."""
    suspects: list[Suspect] = []
    judgement: Judgement | None = None
    """Where a model was asked."""
    unreadable: list[Unreadable] = []
    """The first of them; the totals have the count."""
    unpriced: dict[str, int] = {}
    """Models that the table of prices does not have, with their calls."""
    unknown_types: dict[str, int] = {}
    """Types that this reader does not know, with how often they came."""

    @property
    def duration_ns(self) -> int:
        """From the opening to the close, or to the last event of a run that goes on.

        The time between what a fork has copied and the fork does not count.
        """
        start = self.opened_at or self.first_at
        gap = 0 if self.fork is None else self.fork.gap_ns
        return max((self.closed_at or self.last_at) - start - gap, 0)

    @property
    def is_imported(self) -> bool:
        """Whether it is the run of another system."""
        return "import.format" in self.labels

    @property
    def answer(self) -> Answer | None:
        """The accepted answer; while the task is open, the last one submitted."""
        if self.accepted_answer is not None:
            return self.answers.get(self.accepted_answer)
        if self.closed_at is not None:
            return None
        return next(reversed(self.answers.values()), None)

    def is_outside(self, agent: AgentName) -> bool:
        """Whether *agent* only asks and reads, as a person does: it opened the task, and nothing
        in the log says that it works through mentions."""
        if agent != self.opened_by:
            return False
        totals = self.agents.get(agent)
        return totals is None or not totals.handled

    def working_agents(self) -> list[AgentTotals]:
        """The agents that were woken or did work, in order of appearance; no outsiders."""
        return [
            totals
            for name, totals in self.agents.items()
            if (totals.turns or totals.handled) and not self.is_outside(name)
        ]

    def open_turns(self) -> list[Turn]:
        """Mentions without an answer and without an end, oldest first; no outsiders."""
        found = [
            entry
            for thread in self.threads.values()
            for entry in thread.entries
            if isinstance(entry, Turn)
            and entry.outcome in (TurnOutcome.OPEN, TurnOutcome.FAILED)
            and not self.is_outside(entry.agent)
        ]
        return sorted(found, key=lambda turn: turn.seq)

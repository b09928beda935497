"""What detectors know of the run so far: events, who takes part, what is asked for, who works.

Kept once for all of them, in constant time for each event. Everything has a bound; past it the
oldest is forgotten, and what then cannot be known is not reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from threadbus.replay.findings.ballots import Ballots
from threadbus.replay.findings.jobs import Jobs
from threadbus.replay.findings.refs import Ref, about_of
from threadbus.replay.findings.requests import Requests
from threadbus.replay.findings.seen import Seen
from threadbus.replay.steps import ns
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnswerSubmitted,
    ArtifactAdded,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    ConsensusFailed,
    ConsensusReached,
    Event,
    EventClass,
    EventId,
    HandlingFailed,
    HandlingStarted,
    InputGiven,
    InputRequested,
    MessagePosted,
    ParticipantAdded,
    ParticipantRemoved,
    PlanProposed,
    PlanRevised,
    ProposalMade,
    Recorded,
    TaskClosed,
    TaskForked,
    TaskOpened,
    TaskStatus,
    TaskStatusChanged,
    ThreadClosed,
    ThreadId,
    ThreadOpened,
    VoteCast,
)

MAX_KNOWN: Final = 2_000_000
"""Events that are known by their id; later ones are looked at but cannot be referred to."""

_MAX_TOOLS: Final = 1_000

MAX_ROOMS: Final = 100_000
"""Threads that are told apart."""

_IMPORT_LABEL: Final = "import.format"
_PLAIN: Final = (MessagePosted, AssignmentMade)
_OWN_PROGRESS: Final = (
    AnswerSubmitted,
    ArtifactAdded,
    AssignmentFailed,
    AssignmentFinished,
    PlanProposed,
    PlanRevised,
)
_BALLOTS: Final = (ProposalMade, VoteCast, ConsensusReached, ConsensusFailed)
_NO_MOVES: Final = frozenset({"assignment.accepted", "assignment.progressed"})


class Room(msgspec.Struct, kw_only=True):
    """A thread as of now."""

    thread: ThreadId
    people: dict[AgentName, bool] | None = None
    """Who takes part, false for who was taken out; absent where the opening is not in the log."""
    opened: Ref | None = None
    closed: Ref | None = None
    moves: int = 0
    """Things said and done so far, routine left out."""
    lasting: int = 0
    """Those of them that are neither messages nor assignments."""
    own: dict[AgentName, int] = {}
    """Those of them by one agent that are no progress by themselves: messages, assignments."""


class Scene:
    """The run so far."""

    def __init__(self, polling: Sequence[str] = ()) -> None:
        self._polling = tuple(polling)
        self._polls: dict[str, bool] = {}
        self.known: dict[EventId, Ref] = {}
        self.rooms: dict[ThreadId, Room] = {}
        self.jobs = Jobs()
        self.requests = Requests()
        self.ballots = Ballots()
        self.inputs: dict[AgentName, int] = {}
        """How often something new came to each agent, or it made something that lasts."""
        self.rejected = 0
        """Entries that could not be read."""
        self.is_whole = False
        """Whether the log begins with the opening of the task, and every entry could be read."""
        self.is_imported = False
        """Whether the log is another system's: who woke whom is then a guess."""
        self.opened_by: AgentName | None = None
        self.deadline_at: int | None = None
        self.closed: Ref | None = None
        self.last_at = 0
        self.resumes_at = 0
        """When the last attempt that failed is tried again."""
        self.pending: set[EventId] = set()
        """Questions to whoever opened the task."""
        self.is_paused = False
        self.last: Ref | None = None
        """The last event."""

    def look(self, item: Recorded) -> Seen:
        """Take an event that was not in the log before, and return it with what is known of it."""
        event, data = item.event, item.event.data
        known = self.known
        seen = self._seen(item, about_of(data))
        ref, at = seen.ref, seen.at
        is_obs = seen.is_obs = event.event_class is EventClass.OBS
        cause = seen.cause = None if event.cause is None else known.get(event.cause)
        seen.before = self.last
        seen.is_excused = bool(self.pending or self.is_paused)
        if isinstance(data, TaskForked):
            # Nobody worked between what was copied and the fork; those asked begin anew.
            self.jobs.clear()
            self.is_paused = data.status is not TaskStatus.WORKING
            self.last_at = max(self.last_at, at)
        elif at > self.last_at:
            if self.is_waiting():
                seen.gap = max(at - max(self.last_at, self.resumes_at), 0)
            self.last_at = at
        if self.last is None:
            self.is_whole = isinstance(data, TaskOpened) and not self.rejected
        self.last = ref
        if len(known) < MAX_KNOWN:
            known[event.id] = ref
        else:
            self.is_whole = False
        addressees = event.addressees
        if addressees:
            inputs = self.inputs
            for name in addressees:
                inputs[name] = inputs.get(name, 0) + 1
        if not is_obs:
            self._act(event, ref, cause)
        elif isinstance(data, HandlingFailed | HandlingStarted):
            self._try_again(event, ref, data)
        seen.job = self.jobs.take(event, ref, known)
        asked = self.requests.take(seen)
        if asked is not None:
            seen.asks = (asked,)
        return seen

    def repeated(self, item: Recorded) -> Seen:
        """Return an event whose id was in the log before; nothing is learned from it."""
        return self._seen(item, None)

    def _seen(self, item: Recorded, about: EventId | None) -> Seen:
        event, origin = item.event, item.event.copy_of
        # A copy stands where its original stood, also in time.
        stored_at = ns(item.stored_at if origin is None else origin.at)
        at = stored_at or ns(event.at)
        sender, thread = event.sender, event.thread
        ref = Ref(event.id, item.seq, at, sender, thread, event.type, event.cause, about)
        return Seen(at, stored_at, event, ref)

    def is_waiting(self) -> bool:
        """Whether somebody waits for something, and not for a person."""
        if self.pending or self.is_paused or self.closed is not None:
            return False
        return bool(self.jobs.working or self.requests.open)

    def room(self, thread: ThreadId) -> Room:
        """Return a thread, which begins here if nothing was known of it."""
        room = self.rooms.get(thread)
        if room is None:
            room = Room(thread=thread)
            if len(self.rooms) < MAX_ROOMS:
                self.rooms[thread] = room
        return room

    def moves(self, agent: AgentName, thread: ThreadId) -> int:
        """Return how far a thread is from the point of view of *agent*: a number that grows with
        everything but the messages and assignments of its own."""
        room = self.room(thread)
        return room.moves - room.own.get(agent, 0)

    def is_polling(self, tool: str) -> bool:
        """Whether *tool* is one that may be called again and again while nothing happens."""
        found = self._polls.get(tool)
        if found is None:
            found = any(fnmatchcase(tool.lower(), pattern) for pattern in self._polling)
            if len(self._polls) < _MAX_TOOLS:
                self._polls[tool] = found
        return found

    def is_agent(self, name: AgentName) -> bool:
        """Whether *name* is not just whoever opened the task."""
        return name != self.opened_by

    def get(self, event: EventId | None) -> Ref | None:
        """Return an event by its id."""
        return None if event is None else self.known.get(event)

    def _act(self, event: Event, ref: Ref, cause: Ref | None) -> None:
        data = event.data
        sender = event.sender
        room = self.room(event.thread)
        if event.event_class is EventClass.CTL:
            self._control(room, event, ref)
        elif isinstance(data, _BALLOTS):
            self.ballots.take(event, ref)
        if event.type in _NO_MOVES:
            return
        room.moves += 1
        if isinstance(data, _PLAIN):
            room.own[sender] = room.own.get(sender, 0) + 1
        else:
            room.lasting += 1
        inputs = self.inputs
        if isinstance(data, _OWN_PROGRESS):
            inputs[sender] = inputs.get(sender, 0) + 1
        if cause is not None and cause.sender != sender:
            inputs[cause.sender] = inputs.get(cause.sender, 0) + 1
        about = self.get(ref.about)
        if about is not None and about.sender != sender:
            inputs[about.sender] = inputs.get(about.sender, 0) + 1

    def _try_again(self, event: Event, ref: Ref, data: HandlingFailed | HandlingStarted) -> None:
        """What is tried again may be done again."""
        if isinstance(data, HandlingFailed):
            if data.retry_in_ns is not None:
                self.resumes_at = max(self.resumes_at, ref.at + ns(data.retry_in_ns))
        elif data.attempt == 1:
            return
        self.room(event.thread).moves += 1
        self.inputs[event.sender] = self.inputs.get(event.sender, 0) + 1

    def _control(self, room: Room, event: Event, ref: Ref) -> None:
        people = room.people
        if people is not None and not people.get(event.sender):
            # Every reader passes it over.
            return
        data = event.data
        match data:
            case TaskOpened() | ThreadOpened():
                if room.opened is None:
                    room.opened = ref
                    named = (event.sender, *map(AgentName, data.participants), *event.addressees)
                    room.people = dict.fromkeys(named, True)
                if isinstance(data, TaskOpened) and self.opened_by is None:
                    self.opened_by = event.sender
                    self.is_imported = _IMPORT_LABEL in data.labels
                    self.deadline_at = None if data.deadline_at is None else ns(data.deadline_at)
            case ParticipantAdded() if people is not None:
                people[AgentName(data.participant)] = True
            case ParticipantRemoved() if people is not None:
                people[AgentName(data.participant)] = False
            case TaskClosed():
                if event.thread == MAIN_THREAD and self.closed is None:
                    self.closed = room.closed = ref
            case ThreadClosed():
                room.closed = room.closed or ref
            case InputRequested():
                self.pending.add(event.id)
            case InputGiven():
                self.pending.discard(EventId(data.request))
            case TaskStatusChanged():
                self.is_paused = data.status is not TaskStatus.WORKING
            case _:
                pass

"""Made-up runs for the tests of the chaos checker: sound ones, with their histories, by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.history import History, Phase, Step
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnswerSubmitted,
    AnyData,
    ErrorInfo,
    Event,
    EventId,
    HandlingEnded,
    HandlingFailed,
    MentionDeadLettered,
    MessagePosted,
    Recorded,
    TaskClosed,
    TaskId,
    TaskOpened,
    TaskStatus,
    TextPart,
    encode_event,
    make_event,
)

WRITER: Final = AgentName("writer")
AGENTS: Final = (AgentName("web"), AgentName("coder"))
_START: Final = 1_772_366_405_000_000_000


@dataclass
class MadeRun:
    """A log and the histories of its writer, to be broken by tests."""

    log: list[Recorded] = field(default_factory=list[Recorded])
    steps: list[Step] = field(default_factory=list[Step])

    @property
    def histories(self) -> list[History]:
        """The histories as the checker takes them."""
        return [History("writer", tuple(self.steps))]

    def store(self, event: Event) -> Recorded:
        """Put an event at the end of the log."""
        seq = len(self.log) + 1
        self.log.append(Recorded(seq, event, event.at + 1_000, encode_event(event)))
        return self.log[-1]

    def of(self, *kinds: type, sender: str = "") -> list[Recorded]:
        """Return the entries of some kinds, of one sender where one is given."""
        return [
            one
            for one in self.log
            if isinstance(one.event.data, kinds) and sender in {"", one.event.sender}
        ]

    def replace(self, old: Recorded, *new: Recorded) -> None:
        """Put others in the place of an entry, or none."""
        at = self.log.index(old)
        self.log[at : at + 1] = new


class _Maker:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.run = MadeRun()

    def id(self) -> str:
        return f"{self.chance.getrandbits(48):012x}7{self.chance.getrandbits(12):03x}" + (
            f"{0x8000000000000000 | self.chance.getrandbits(62):016x}"
        )

    def event(
        self,
        sender: str,
        task: TaskId,
        data: AnyData,
        mentions: tuple[AgentName, ...] = (),
        cause: EventId | None = None,
    ) -> Event:
        return make_event(
            data,
            task=task,
            thread=MAIN_THREAD,
            sender=AgentName(sender),
            cause=cause,
            mentions=mentions,
            event_id=EventId(self.id()),
            at=_START + len(self.run.log) * 1_000_000,
        )

    def say(self, task: TaskId, data: AnyData, *mentions: AgentName) -> Event:
        """Have the writer say something, with its history."""
        event = self.event(WRITER, task, data, mentions)
        note = self.run.steps.append
        note(Step(Phase.INVOKE, event.id, task))
        luck = self.chance.random()
        if luck < 0.1 and isinstance(data, MessagePosted) and not mentions:
            note(Step(Phase.FAIL, event.id, task))
            return event
        stored = self.run.store(event)
        # Some acknowledgements never come.
        if luck > 0.2:
            note(Step(Phase.OK, event.id, task, stored.seq))
        elif luck > 0.15:
            note(Step(Phase.INFO, event.id, task, why="no answer in time"))
        return event

    def settle(self, agent: AgentName, event: Event) -> None:
        """Have an agent settle a mention in one of the ways that there are."""
        at = event.at
        failed = ErrorInfo("RuntimeError", "no")
        ended = HandlingEnded(received_at=at, started_at=at, ended_at=at + 1)
        data: tuple[AnyData, ...] = self.chance.choice(
            [
                (ended,),
                (HandlingFailed(error=failed, attempt=1, retry_in_ns=1_000), ended),
                (
                    HandlingFailed(error=failed, attempt=1),
                    MentionDeadLettered(error=failed, attempts=1),
                ),
            ]
        )
        for each in data:
            self.run.store(self.event(agent, event.task, each, cause=event.id))


def sound_run(seed: int, tasks: int = 4) -> MadeRun:
    """Make a run in which all is well: some tasks, mentions that are settled, and an end."""
    maker = _Maker(seed)
    for _ in range(tasks):
        task = TaskId(maker.id())
        opened = TaskOpened(title="Q", participants=AGENTS, parts=(TextPart("What?"),))
        question = maker.say(task, opened, AGENTS[0])
        for number in range(maker.chance.randrange(2, 6)):
            mentions = tuple(maker.chance.sample(AGENTS, maker.chance.randrange(3)))
            said = maker.say(task, MessagePosted(parts=(TextPart(str(number)),)), *mentions)
            for agent in mentions:
                maker.settle(agent, said)
        answer = maker.event(
            AGENTS[0], task, AnswerSubmitted(parts=(TextPart("42"),)), cause=question.id
        )
        maker.run.store(answer)
        maker.run.store(
            maker.event(AGENTS[0], task, TaskClosed(outcome=TaskStatus.COMPLETED, answer=answer.id))
        )
        maker.settle(AGENTS[0], question)
    return maker.run

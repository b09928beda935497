"""Puts questions to a bus, each attempt a super-task of its own, and records what comes of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from threadbus.agents.evaluation.questions import Question, load_files
from threadbus.agents.evaluation.records import Opened, Outcome, Records
from threadbus.agents.evaluation.scoring import final_answer, is_right
from threadbus.bus import (
    AppendError,
    Bus,
    InvalidTransitionError,
    TaskNotFoundError,
    TaskState,
    ThreadClosedError,
)
from threadbus.schemas import (
    AnswerSubmitted,
    EventId,
    InputRequested,
    ModelCalled,
    Recorded,
    TaskId,
    TaskStatus,
    TextPart,
    clean_text,
    new_task_id,
    text_of,
)

INSTRUCTION: Final = (
    "\n\nEnd with one line that begins with FINAL ANSWER: and holds the answer alone: a number "
    "without units or separators, as few words as possible, or a list separated by commas."
)
_NOBODY: Final = "Nobody can answer that here; decide it yourself."
_MAX_SAID_CHARS: Final = 2_000
_MAX_INPUTS: Final = 100
_MILLION: Final = 1_000_000


@dataclass(frozen=True)
class Prices:
    """What a million tokens cost, in dollars."""

    input: float
    output: float


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What is asked, of whom, and within which bounds."""

    questions: Sequence[Question]
    folder: Path
    """Of the files that go with questions."""
    to: Sequence[str]
    """Who is asked."""
    participants: Sequence[str] = ()
    attempts: int = 1
    parallel: int = 1
    """Attempts at the same time."""
    timeout: timedelta = timedelta(minutes=10)
    """For one attempt."""
    token_budget: int | None = None
    """For one attempt."""
    prices: Prices | None = None
    instruction: str = INSTRUCTION
    """Stands behind each question."""
    max_file_bytes: int = 64 * 1024 * 1024

    async def run(
        self, bus: Bus, records: Records, on_outcome: Callable[[Outcome], None] | None = None
    ) -> None:
        """Run every attempt that *records* has no outcome of.

        Args:
            bus: speaks for who asks.
            records: what is known; each outcome is added to it.
            on_outcome: told of each outcome.

        Raises, in an ExceptionGroup:
            UnknownAgentError: somebody who is asked is not registered.
            QuestionsError: a file cannot be read.
            RecordsError: an outcome cannot be written.
            BusError: the server is gone; run it again, and it goes on.

        Cancellation: what runs goes on at the bus, and is found again by the next run.
        """
        waiting = iter(self.left(records))

        async def work() -> None:
            for question, attempt in waiting:
                outcome = await _Attempt(self, question, attempt).run(bus, records)
                records.add(outcome)
                if on_outcome is not None:
                    on_outcome(outcome)

        async with asyncio.TaskGroup() as tasks:
            for number in range(self.parallel):
                tasks.create_task(work(), name=f"threadbus.eval[{number}]")

    def left(self, records: Records) -> list[tuple[Question, int]]:
        """Return what is still to be asked: every question once, then again."""
        return [
            (question, attempt)
            for attempt in range(1, self.attempts + 1)
            for question in self.questions
            if not _is_known(records.outcomes.get((question.id, attempt)), question)
        ]


def _is_known(outcome: Outcome | None, question: Question) -> bool:
    return outcome is not None and outcome.digest == question.digest


@dataclass
class _Usage:
    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0


@dataclass
class _Attempt:
    run_of: Evaluation
    question: Question
    number: int

    async def run(self, bus: Bus, records: Records) -> Outcome:
        """Open the super-task, or come back to the one of a run before, and see it end."""
        task = await self._opened(bus, records)
        usage = _Usage()
        state = TaskState(task=task)
        why = ""
        limit = asyncio.timeout(self.run_of.timeout.total_seconds())
        try:
            async with limit:
                await self._see_end(bus, state, usage)
        except TimeoutError:
            if not limit.expired():
                raise
            why = f"no answer within {self.run_of.timeout.total_seconds():g} s"
            with contextlib.suppress(ThreadClosedError):
                await bus.tasks.cancel(task, why)
        return await self._outcome(bus, state, usage, why)

    async def _opened(self, bus: Bus, records: Records) -> TaskId:
        key = (self.question.id, self.number)
        task = records.opened.get(key)
        if task is not None:
            with contextlib.suppress(TaskNotFoundError):
                state = await bus.tasks.state(task)
                cancelled = state.status is TaskStatus.CANCELLED
                if not cancelled and state.title == self._title():
                    return task
        # Written first: whoever is killed between the two finds the id, and nothing under it.
        task = new_task_id()
        records.add(Opened(question=self.question.id, attempt=self.number, task=task))
        run = self.run_of
        files = await asyncio.to_thread(load_files, self.question, run.folder, run.max_file_bytes)
        await bus.tasks.open(
            [TextPart(f"{self.question.text}{run.instruction}"), *files],
            to=run.to,
            participants=run.participants,
            title=self._title(),
            token_budget=run.token_budget,
            labels={"question": self.question.id, "attempt": str(self.number)},
            task=task,
        )
        return task

    def _title(self) -> str:
        return f"{self.question.id} ({self.question.digest}), attempt {self.number}"

    async def _see_end(self, bus: Bus, state: TaskState, usage: _Usage) -> None:
        asked: list[EventId] = []
        # What was asked before a restart is answered too: the history comes first.
        async with aclosing(bus.follow(state.task)) as entries:
            async for entry in entries:
                if not isinstance(entry, Recorded) or not state.apply(entry):
                    continue
                data = entry.event.data
                if isinstance(data, ModelCalled):
                    usage.input_tokens += data.input_tokens
                    usage.output_tokens += data.output_tokens
                    usage.calls += 1
                elif isinstance(data, InputRequested) and len(asked) < _MAX_INPUTS:
                    asked.append(entry.event.id)
                    # It was answered in a run before, or the task has ended meanwhile.
                    with contextlib.suppress(AppendError, InvalidTransitionError):
                        await bus.tasks.give_input(state.task, _NOBODY, request=entry.event.id)
                if state.status.is_final:
                    return

    async def _outcome(self, bus: Bus, state: TaskState, usage: _Usage, why: str) -> Outcome:
        said, prices, answer = "", self.run_of.prices, state.answer
        if answer is not None and isinstance(answer.data, AnswerSubmitted) and not why:
            parts = [await bus.artifacts.load(part) for part in answer.data.parts]
            said = final_answer(text_of(parts))
        expected = self.question.answer
        answered = state.status is TaskStatus.COMPLETED and not why
        return Outcome(
            question=self.question.id,
            attempt=self.number,
            digest=self.question.digest,
            task=state.task,
            status="timeout" if why else state.status.value,
            said=clean_text(said, _MAX_SAID_CHARS),
            right=None if expected is None else answered and is_right(said, expected),
            why=clean_text(why or ("" if answered else state.summary), _MAX_SAID_CHARS),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            model_calls=usage.calls,
            cost=None
            if prices is None
            else (usage.input_tokens * prices.input + usage.output_tokens * prices.output)
            / _MILLION,
            duration_ns=max(0, (state.closed_at or time.time_ns()) - state.opened_at),
        )

"""The tools ``ask`` and ``ask_<agent>``: open a super-task, and wait for its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from msgspec import UNSET

from threadbus.bus import Answer, InputRequest, InvalidTransitionError
from threadbus.gateways.errors import BadArgumentError
from threadbus.gateways.mcp import arguments as takes
from threadbus.gateways.mcp.calls import Answer as PersonsAnswer
from threadbus.gateways.mcp.calls import Call, InputNeeded, parts_of
from threadbus.gateways.mcp.references import Place, thread_ref
from threadbus.gateways.mcp.results import Answered
from threadbus.gateways.mcp.tools_threads import open_task
from threadbus.gateways.mcp.translate import data_of, files_of, says, text_in
from threadbus.gateways.mcp.watching import Watcher, next_request
from threadbus.gateways.text import cut_text
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    Event,
    EventId,
    FilePart,
    InputRequested,
    Parts,
    TaskId,
    new_task_id,
    parse_event_id,
    parse_task_id,
)

_QUIET_S: Final = 0.05
"""An answer that comes sooner is brought without looking at what happens meanwhile."""

_MAX_ANSWER_BYTES: Final = 200_000
_MAX_QUESTION_BYTES: Final = 8_000
_SPARE: Final = timedelta(seconds=60)
_UNWILLING: Final = "Your person would not answer."


async def ask(call: Call, args: takes.Ask) -> Answered:
    """Ask an agent, or wait on for the answer to an earlier question."""
    if call.answer is not None:
        return await _go_on(call, call.answer, args.timeout_s)
    if isinstance(args.task_id, str):
        task = parse_task_id(args.task_id.partition("/")[0].strip())
        await call.visible(Place(task, MAIN_THREAD))
        return await _until(call, task, _waiting(call, task, args.timeout_s), args.timeout_s)
    if not isinstance(args.agent, str) or not args.question:
        raise BadArgumentError(
            "agent and question", "one is missing", "give both, or the task_id of an earlier ask"
        )
    agent = await call.directory.resolve(args.agent)
    return await ask_agent(
        call,
        agent,
        takes.AskAgent(
            question=args.question,
            data=args.data,
            timeout_s=args.timeout_s,
            idempotency_key=args.idempotency_key,
        ),
    )


async def ask_agent(call: Call, agent: AgentName, args: takes.AskAgent) -> Answered:
    """Ask one agent."""
    if call.answer is not None:
        return await _go_on(call, call.answer, args.timeout_s)
    if agent == call.me:
        raise BadArgumentError("agent", f"you are {agent}", "ask another one (find_agents)")
    question = parts_of(args.question, args.data)
    if args.idempotency_key is UNSET and not call.traceparent:
        task = new_task_id()
        asking = call.bus.ask(
            question, to=[agent], task=task, timeout=timedelta(seconds=args.timeout_s) + _SPARE
        )
        return await _until(call, task, asking, args.timeout_s)
    opened = await open_task(
        call, question, to=[agent], participants=(), title="", key=args.idempotency_key
    )
    task = opened.event.task
    return await _until(call, task, _waiting(call, task, args.timeout_s), args.timeout_s)


def _waiting(call: Call, task: TaskId, timeout_s: float) -> Coroutine[Any, Any, Answer]:
    return call.bus.waits.for_answer(task, timeout=timedelta(seconds=timeout_s) + _SPARE)


async def _go_on(call: Call, answer: PersonsAnswer, timeout_s: float) -> Answered:
    """Hand over what the person said, and wait on."""
    task_text, _, request_text = answer.state.partition(" ")
    task, request = parse_task_id(task_text), parse_event_id(request_text)
    if answer.text is None:
        asked = (await call.bus.tasks.state(task)).requests.get(request)
        if asked is not None:
            return _needs_input(task, asked, _UNWILLING)
    else:
        # Answered already where this call is made once more because its result got lost.
        with suppress(InvalidTransitionError):
            await call.bus.tasks.give_input(task, answer.text, request=request)
    return await _until(call, task, _waiting(call, task, timeout_s), timeout_s)


async def _until(
    call: Call, task: TaskId, answering: Coroutine[Any, Any, Answer], timeout_s: float
) -> Answered:
    """Wait for the answer; ask the person meanwhile, where the super-task wants to know more."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    watcher = Watcher(call.bus, task, call.progress) if call.wants_progress else None
    started: list[asyncio.Task[Any]] = []
    try:
        if watcher is not None:
            started.append(asyncio.create_task(watcher.tell(), name=f"threadbus.mcp.tell[{task}]"))
            await watcher.listening.wait()
        answer = asyncio.create_task(answering, name=f"threadbus.mcp.answer[{task}]")
        started.append(answer)
        done, _ = await asyncio.wait({answer}, timeout=min(_QUIET_S, timeout_s))
        if not done:
            # Whoever has to come back for the answer is woken by the end of the super-task.
            call.desk.closings.soon(task)
            asked = await _watch(call, task, answer, watcher, deadline)
            if asked is not None:
                return asked
        if answer.done():
            return _answered(call, task, await call.loaded(answer.result().event))
        return Answered(
            status="working",
            task_id=task,
            thread_id=thread_ref(task, MAIN_THREAD),
            note=f"No answer yet; the work goes on. Call ask with task_id '{task}' and nothing "
            "else to wait on, or close_thread with outcome cancelled to stop it.",
        )
    finally:
        answering.close()
        for one in started:
            await _end(one)


async def _watch(
    call: Call,
    task: TaskId,
    answer: asyncio.Task[Answer],
    watcher: Watcher | None,
    deadline: float,
) -> Answered | None:
    """Look at what happens until there is an answer or the time is up.

    Returns:
        The question of the super-task, where this host cannot have it answered in this call.
    """
    answered: set[EventId] = set()
    while True:
        asking = asyncio.create_task(
            next_request(call.bus, task, answered, watcher), name=f"threadbus.mcp.requests[{task}]"
        )
        try:
            left = max(0.0, deadline - asyncio.get_running_loop().time())
            either: set[asyncio.Task[Any]] = {asking, answer}
            await asyncio.wait(either, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if answer.done() or not asking.done():
                return None
            request = asking.result()
        finally:
            await _end(asking)
        answered.add(request.event.id)
        question = cut_text(says(request.event), _MAX_QUESTION_BYTES)
        data = request.event.data
        if isinstance(data, InputRequested) and data.auth:
            # Nothing that is secret may go through a form of the host.
            return _needs_input(task, request, "It asks for a sign-in, beside this gateway.")
        if call.asks == "again":
            raise InputNeeded(question, f"{task} {request.event.id}")
        if call.asks == "never" or call.elicit is None:
            return _needs_input(task, request, "Your host cannot ask its person.")
        text = await call.elicit(question)
        if text is None:
            return _needs_input(task, request, _UNWILLING)
        await call.bus.tasks.give_input(task, text, request=request.event.id)


async def _end(task: asyncio.Task[Any]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        # Read, so that nobody warns of it: whoever needs it has read it before.
        task.exception()


def _needs_input(task: TaskId, request: InputRequest, why: str) -> Answered:
    event = request.event
    return Answered(
        status="input_required",
        task_id=task,
        thread_id=thread_ref(task, MAIN_THREAD),
        message_id=event.id,
        by=event.sender,
        text=cut_text(says(event), _MAX_QUESTION_BYTES),
        note=f"{why} Answer it yourself with reply (this thread_id and message_id), then call "
        f"ask with task_id '{task}' to wait on.",
    )


def _answered(call: Call, task: TaskId, event: Event) -> Answered:
    parts: Parts = getattr(event.data, "parts", ())
    call.attached = [part for part in parts if isinstance(part, FilePart)]
    return Answered(
        status="answered",
        task_id=task,
        thread_id=thread_ref(task, MAIN_THREAD),
        message_id=event.id,
        by=event.sender,
        text=cut_text(text_in(parts), _MAX_ANSWER_BYTES, "get_thread shows it in parts"),
        data=data_of(parts),
        files=files_of(parts),
    )

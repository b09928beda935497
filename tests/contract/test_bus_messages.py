"""Messages: who may say what to whom, and what counts once."""

import pytest

from tests.support.bus_env import BusEnv, comes_to, events_of, opened, receive, text, types_of
from threadbus.bus import (
    NotAParticipantError,
    TaskNotFoundError,
    ThreadClosedError,
    ThreadNotFoundError,
    UnknownAgentError,
)
from threadbus.schemas import (
    MAIN_THREAD,
    DataPart,
    EventId,
    FilePart,
    InvalidIdError,
    InvalidNameError,
    Lane,
    LimitExceededError,
    MessagePosted,
    TaskId,
    TaskStatus,
    TextPart,
    ThreadId,
    ToolCalled,
    derive_event_id,
    new_event_id,
    new_task_id,
)


async def test_a_message_wakes_whom_it_mentions(env: BusEnv) -> None:
    """A message is stored once and is in the inbox of each agent that it mentions."""
    async with env.buses("user", "web", "coder", "critic") as (user, web, coder, _):
        task = await opened(user, "web", participants=["coder", "critic"])
        async with web.inbox() as inbox:
            (question,) = await receive(inbox, 1)
            appended = await web.send(
                task, MAIN_THREAD, "Help!", mentions=["coder", "user"], cause=question.event.id
            )
        async with coder.inbox() as inbox:
            (delivery,) = await receive(inbox, 1)

        assert delivery.event == appended.event
        assert delivery.event.cause == question.event.id
        assert delivery.event.sender == "web"
        assert [event.id for event in await events_of(user, task)] == [
            question.event.id,
            appended.event.id,
        ]
        await comes_to(user.pending_mentions, {"user": 1})


async def test_every_kind_of_part_arrives_as_it_was_sent(env: BusEnv) -> None:
    """Text in any script, exact integers, JSON values and bytes come back equal."""
    parts = (
        TextPart('刘备 said: "नमस्ते" \\u0041 \u2028 🦜 \t\r\n'),
        DataPart({"big": 2**63 + 1, "none": None, "list": [1.5, True, ""], "": {}}),
        FilePart(bytes(range(256)), "all bytes.bin", "application/x-all"),
    )
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await user.send(task, MAIN_THREAD, parts, lane=Lane.QUICK, awaited=True)
        *_, event = await events_of(web, task)

    assert event.data == MessagePosted(parts=parts, lane=Lane.QUICK, awaited=True)


async def test_an_agent_may_mention_itself(env: BusEnv) -> None:
    """A mention of the sender wakes the sender."""
    async with env.buses("planner") as (planner,):
        task = await opened(planner)
        appended = await planner.send(task, MAIN_THREAD, "Go on.", mentions=["planner"])
        async with planner.inbox() as inbox:
            (delivery,) = await receive(inbox, 1)

    assert delivery.event == appended.event


async def test_a_mention_of_an_outsider_is_refused_with_the_participants(env: BusEnv) -> None:
    """Mentioning a registered agent that is not in the thread says who is in it."""
    async with env.buses("user", "web", "coder") as (user, _, _):
        task = await opened(user, "web")
        with pytest.raises(NotAParticipantError) as refusal:
            await user.send(task, MAIN_THREAD, "Help!", mentions=["web", "coder"])

        assert refusal.value.names == ("coder",)
        assert refusal.value.participants == ("user", "web")
        assert await types_of(user, task) == ["task.opened"]


async def test_a_misspelt_mention_is_refused_with_the_nearest_names(env: BusEnv) -> None:
    """Mentioning a name that nobody registered says which registered ones are like it."""
    async with env.buses("user", "document", "coder") as (user, _, _):
        task = await opened(user, "document")
        with pytest.raises(UnknownAgentError) as refusal:
            await user.send(task, MAIN_THREAD, "Help!", mentions=["documnt"])

        assert refusal.value.nearest == ("document",)
        assert await types_of(user, task) == ["task.opened"]


async def test_an_outsider_cannot_speak(env: BusEnv) -> None:
    """An agent that is not in a thread can post nothing there."""
    async with env.buses("user", "web", "coder") as (user, _, coder):
        task = await opened(user, "web")
        with pytest.raises(NotAParticipantError) as refusal:
            await coder.send(task, MAIN_THREAD, "I know!")

        assert refusal.value.names == ("coder",)
        assert await types_of(user, task) == ["task.opened"]


async def test_a_message_needs_a_task_and_a_thread(env: BusEnv) -> None:
    """A message to an unknown task or thread is refused; the known threads are named."""
    task = new_task_id()
    async with env.buses("user", "web") as (user, _):
        with pytest.raises(TaskNotFoundError) as no_task:
            await user.send(task, MAIN_THREAD, "Hello?")
        task = await opened(user, "web")
        with pytest.raises(ThreadNotFoundError) as no_thread:
            await user.send(task, ThreadId("nowhere"), "Hello?")

    assert no_task.value.task
    assert no_thread.value.thread == "nowhere"
    assert no_thread.value.known == ("main",)


async def test_sixteen_mentions_are_the_limit(env: BusEnv) -> None:
    """Sixteen mentions in one message wake sixteen; seventeen are refused and wake nobody."""
    names = [f"agent-{number:02}" for number in range(17)]
    async with env.buses("user", *names) as (user, *_):
        task = await opened(user, participants=names)
        await user.send(task, MAIN_THREAD, "All of you!", mentions=names[:16])
        with pytest.raises(LimitExceededError) as refusal:
            await user.send(task, MAIN_THREAD, "And you!", mentions=names)

        assert (refusal.value.value, refusal.value.limit) == (17, 16)
        await comes_to(user.pending_mentions, dict.fromkeys(names[:16], 1))


async def test_the_same_event_counts_once(env: BusEnv) -> None:
    """Sending one event id again stores and wakes nothing more, also from another process."""
    event_id = new_event_id()
    async with env.buses("user", "web") as (user, web), env.connect("user") as again:
        task = await opened(user, "web")
        first = await user.send(task, MAIN_THREAD, "Hello!", mentions=["web"], event_id=event_id)
        second = await user.send(task, MAIN_THREAD, "Hello!", mentions=["web"], event_id=event_id)
        third = await again.send(task, MAIN_THREAD, "Hello!", mentions=["web"], event_id=event_id)
        await user.send(task, MAIN_THREAD, "Bye!", mentions=["web"])
        async with web.inbox() as inbox:
            deliveries = await receive(inbox, 3)

        assert [first.duplicate, second.duplicate, third.duplicate] == [False, True, True]
        assert {first.seq, second.seq, third.seq} == {first.seq}
        assert [text(delivery.event) for delivery in deliveries] == [
            "What is it?",
            "Hello!",
            "Bye!",
        ]


async def test_derived_ids_make_a_repeated_answer_one_answer(env: BusEnv) -> None:
    """An agent that answers the same mention twice with derived ids has answered once."""
    async with env.buses("user", "web") as (user, web):
        appended = await user.tasks.open("What?", to=["web"])
        task, cause = appended.event.task, appended.event.id
        for content in ("It is.", "It is, again."):
            await web.send(
                task,
                MAIN_THREAD,
                content,
                cause=cause,
                event_id=derive_event_id(cause, web.name, 0),
            )
        _, event = await events_of(user, task)

    assert text(event) == "It is."


async def test_observations_are_recorded_also_after_the_end(env: BusEnv) -> None:
    """What was seen is stored after a task has closed, where messages are refused."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await user.tasks.close(task, TaskStatus.COMPLETED)
        with pytest.raises(ThreadClosedError):
            await web.send(task, MAIN_THREAD, "Too late?")
        event_id = await web.observe(ToolCalled(call_id="c1", tool="search"), task=task)
        await web.append(ToolCalled(call_id="c2", tool="search"), task=task)

        *_, first, second = await events_of(user, task)
        assert first.id == event_id
        assert second.type == "tool.called"


async def test_leaving_a_bus_waits_for_observations(env: BusEnv) -> None:
    """Every observation that was sent without waiting is stored once the bus was left."""
    async with env.buses("user", "web") as (user, _):
        task = await opened(user, "web")
        async with env.connect("web") as web:
            ids = [
                await web.observe(ToolCalled(call_id=f"c{number}", tool="t"), task=task)
                for number in range(200)
            ]
        stored = await events_of(user, task)

    assert [event.id for event in stored[1:]] == ids


async def test_one_connection_speaks_under_several_names(env: BusEnv) -> None:
    """A bus that acts as another name appends and is woken under that name."""
    async with env.buses("user", "web") as (user, _):
        task = await opened(user, "web")
        web = user.acting_as("web")
        await web.send(task, MAIN_THREAD, "Hello!", mentions=["user"])
        async with web.inbox() as inbox:
            (delivery,) = await receive(inbox, 1)

        assert web.name == "web"
        assert [event.sender for event in await events_of(user, task)] == ["user", "web"]
        assert delivery.event.sender == "user"
        with pytest.raises(InvalidNameError):
            user.acting_as("Not A Name")


@pytest.mark.parametrize("task", ["", "*", "a b", "x" * 32, "0" * 31, ">"])
async def test_what_is_no_task_id_is_refused(env: BusEnv, task: str) -> None:
    """Text that is no task id is refused wherever one is taken, before a server sees it."""
    wrong = TaskId(task)
    async with env.buses("user") as (user,):
        with pytest.raises(InvalidIdError):
            await user.send(wrong, MAIN_THREAD, "Hello?")
        with pytest.raises(InvalidIdError):
            await user.tasks.state(wrong)
        with pytest.raises(InvalidIdError):
            await user.threads.state(wrong)
        with pytest.raises(InvalidIdError):
            await user.threads.list(wrong)
        with pytest.raises(InvalidIdError):
            await events_of(user, wrong)
        with pytest.raises(InvalidIdError):
            await anext(aiter(user.follow(wrong)))
        with pytest.raises(InvalidIdError):
            await user.waits.for_answer(wrong)
        with pytest.raises(InvalidIdError):
            await user.publish_live(wrong, MAIN_THREAD, 1)
        with pytest.raises(InvalidIdError):
            async with user.watching_live(wrong, lambda _sender, _value: None):
                pass


@pytest.mark.parametrize("thread", ["", "*", "a.b", "A", ">", "a b"])
async def test_what_is_no_thread_id_is_refused(env: BusEnv, thread: str) -> None:
    """Text that is no thread id is refused wherever one is taken, before a server sees it."""
    wrong = ThreadId(thread)
    async with env.buses("user", "web") as (user, _):
        task = await opened(user, "web")
        with pytest.raises(InvalidNameError):
            await user.send(task, wrong, "Hello?")
        with pytest.raises(InvalidNameError):
            await user.threads.state(task, wrong)
        with pytest.raises(InvalidNameError):
            await user.threads.open(task, "Another", thread=wrong)
        with pytest.raises(InvalidNameError):
            await events_of(user, task, wrong)
        with pytest.raises(InvalidNameError):
            await user.waits.for_close(task, wrong)
        with pytest.raises(InvalidNameError):
            await user.publish_live(task, wrong, 1)


async def test_what_is_no_event_id_is_refused(env: BusEnv) -> None:
    """An id or a cause that is no event id is refused and nothing is stored."""
    async with env.buses("user", "web") as (user, _):
        task = await opened(user, "web")
        with pytest.raises(InvalidIdError):
            await user.send(task, MAIN_THREAD, "Hello?", event_id=EventId("mine"))
        with pytest.raises(InvalidIdError):
            await user.send(task, MAIN_THREAD, "Hello?", cause=EventId("yours"))

        assert await types_of(user, task) == ["task.opened"]

"""Opening a super-task: one append that asks, lets in and wakes."""

from datetime import timedelta

import pytest

from tests.support.bus_env import BusEnv, comes_to, events_of, opened, receive, types_of
from threadbus.bus import InvalidTransitionError, TaskNotFoundError, UnknownAgentError
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    InvalidNameError,
    LimitExceededError,
    TaskStatus,
    TextPart,
    new_event_id,
    new_task_id,
)


async def test_opening_is_one_append_that_wakes_whom_it_asks(env: BusEnv) -> None:
    """A question opens its task, lets everybody in and wakes the asked agent in one event."""
    async with env.buses("user", "web", "coder") as (user, web, _):
        appended = await user.tasks.open("What is 6 * 7?", to=["web"], participants=["coder"])
        async with web.inbox() as inbox:
            (delivery,) = await receive(inbox, 1)
        stored = await events_of(user, appended.event.task)

    assert [appended.event] == stored
    assert appended.event == delivery.event
    assert appended.seq == delivery.seq
    assert not appended.duplicate


async def test_only_whom_is_asked_is_woken(env: BusEnv) -> None:
    """Another participant of the task has nothing in its inbox."""
    async with env.buses("user", "web", "coder") as (user, _, _):
        await opened(user, "web", participants=["coder"])

        await comes_to(user.pending_mentions, {"web": 1})


async def test_state_says_what_was_opened(env: BusEnv) -> None:
    """The state of a new task is what the opening said."""
    async with env.buses("user", "web", "coder") as (user, web, _):
        appended = await user.tasks.open(
            [TextPart("What is it?"), TextPart("Be brief.")],
            to=["web"],
            participants=["coder"],
            title="It",
            token_budget=1000,
            deadline=timedelta(hours=1),
        )
        state = await web.tasks.state(appended.event.task)

    assert state.status is TaskStatus.WORKING
    assert state.is_open
    assert state.title == "It"
    assert state.opened_by == "user"
    assert state.opened_at == appended.event.at
    assert state.question == (TextPart("What is it?"), TextPart("Be brief."))
    assert state.token_budget == 1000
    assert state.deadline_at is not None
    assert state.deadline_at > appended.event.at
    assert list(state.threads[MAIN_THREAD].participants) == ["user", "web", "coder"]


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("One line", "One line"),
        ("\n First line \nsecond line", "First line"),
        ("x" * 121, "x" * 119 + "…"),
        ("刘备\n", "刘备"),
        ("", ""),
    ],
)
async def test_title_is_the_beginning_of_the_question(
    env: BusEnv, question: str, title: str
) -> None:
    """Without a title the first line of the question stands in lists, cut where it is long."""
    async with env.buses("user", "web") as (user, _):
        await user.tasks.open(question, to=["web"])
        (summary,) = await user.tasks.list()

    assert summary.title == title


async def test_a_misspelt_agent_is_refused_with_the_nearest_names(env: BusEnv) -> None:
    """A question to a name that nobody registered opens nothing and names the nearest ones."""
    async with env.buses("user", "planner", "coder") as (user, _, _):
        with pytest.raises(UnknownAgentError) as refusal:
            await user.tasks.open("What?", to=["plannr"])
        with pytest.raises(UnknownAgentError):
            await user.tasks.open("What?", to=["planner"], participants=["nobody-near"])

        assert refusal.value.name == "plannr"
        assert refusal.value.nearest == ("planner",)
        assert "planner" in str(refusal.value)
        assert await user.tasks.list() == []


async def test_a_display_name_is_refused_with_one_that_would_do(env: BusEnv) -> None:
    """A name outside the grammar is refused with the canonical name for it."""
    async with env.buses("user") as (user,):
        with pytest.raises(InvalidNameError) as refusal:
            await user.tasks.open("What?", to=["Web Agent"])

    assert refusal.value.suggestion.startswith("web-agent-")


async def test_sixteen_are_asked_at_once_and_each_is_woken(env: BusEnv) -> None:
    """A question may ask sixteen agents; each has it in its inbox once."""
    names = [f"agent-{number:02}" for number in range(16)]
    async with env.buses("user", *names) as (user, *agents):
        appended = await user.tasks.open("What?", to=names)
        seen: list[tuple[AgentName, int]] = []
        for agent in agents:
            async with agent.inbox() as inbox:
                (delivery,) = await receive(inbox, 1)
                seen.append((agent.name, delivery.seq))

        assert seen == [(name, appended.seq) for name in names]
        await comes_to(user.pending_mentions, {})


async def test_seventeen_are_refused(env: BusEnv) -> None:
    """A seventeenth mention is refused with the value, the limit and the way out."""
    names = [f"agent-{number:02}" for number in range(17)]
    async with env.buses("user", *names) as (user, *_):
        with pytest.raises(LimitExceededError) as refusal:
            await user.tasks.open("What?", to=names)

        assert (refusal.value.value, refusal.value.limit) == (17, 16)
        assert await user.tasks.list() == []


async def test_a_name_that_is_said_twice_is_woken_once(env: BusEnv) -> None:
    """Repeated names count once, among the asked as among the participants."""
    async with env.buses("user", "web") as (user, _):
        appended = await user.tasks.open("What?", to=["web", "web"], participants=["web"])

        assert appended.event.mentions == ("web",)
        await comes_to(user.pending_mentions, {"web": 1})


async def test_opening_again_with_the_same_event_is_the_same_opening(env: BusEnv) -> None:
    """A repeated opening with one event id is a duplicate, also from another process."""
    task, event_id = new_task_id(), new_event_id()
    async with env.buses("user", "web") as (user, _), env.connect("user") as again:
        first = await user.tasks.open("What?", to=["web"], task=task, event_id=event_id)
        second = await user.tasks.open("What?", to=["web"], task=task, event_id=event_id)
        third = await again.tasks.open("What?", to=["web"], task=task, event_id=event_id)

        assert [first.duplicate, second.duplicate, third.duplicate] == [False, True, True]
        assert first.seq == second.seq == third.seq
        assert await types_of(user, task) == ["task.opened"]


async def test_a_task_is_opened_once(env: BusEnv) -> None:
    """A second opening of one task id is refused, whoever tries it."""
    task = new_task_id()
    async with env.buses("user", "web") as (user, web):
        await user.tasks.open("What?", to=["web"], task=task)
        with pytest.raises(InvalidTransitionError):
            await user.tasks.open("What else?", to=["web"], task=task)
        with pytest.raises(InvalidTransitionError):
            await web.tasks.open("What else?", to=["user"], task=task)

        assert await types_of(user, task) == ["task.opened"]


async def test_an_opening_may_ask_its_own_sender(env: BusEnv) -> None:
    """An agent may ask itself; it is woken as any other."""
    async with env.buses("planner") as (planner,):
        appended = await planner.tasks.open("What next?", to=["planner"])
        async with planner.inbox() as inbox:
            (delivery,) = await receive(inbox, 1)

    assert delivery.event == appended.event


async def test_lists_have_the_newest_first(env: BusEnv) -> None:
    """Tasks are listed from the newest, at most as many as asked for, with their status."""
    async with env.buses("user", "web") as (user, web):
        tasks = [await opened(user, "web") for _ in range(4)]
        await web.tasks.submit_answer(tasks[1], "It is.", summary="found")
        await user.tasks.cancel(tasks[2], "no longer needed")
        summaries = await web.tasks.list()

        assert [summary.task for summary in summaries] == tasks[::-1]
        assert [summary.status for summary in summaries] == [
            TaskStatus.WORKING,
            TaskStatus.CANCELLED,
            TaskStatus.COMPLETED,
            TaskStatus.WORKING,
        ]
        assert [summary.summary for summary in summaries] == ["", "no longer needed", "found", ""]
        assert [summary.task for summary in await web.tasks.list(limit=2)] == tasks[:1:-1]


async def test_a_beginning_of_the_id_finds_tasks(env: BusEnv) -> None:
    """Tasks are found by how their id begins; a whole id finds one, a wrong one none."""
    async with env.buses("user", "web") as (user, _):
        tasks = [await opened(user, "web") for _ in range(3)]

        assert await user.find_tasks("") == tasks[::-1]
        assert await user.find_tasks(tasks[1]) == [tasks[1]]
        assert await user.find_tasks("f" * 32) == []


async def test_a_task_that_was_never_opened_is_not_found(env: BusEnv) -> None:
    """The state of an unknown task is an error that names it."""
    task = new_task_id()
    async with env.buses("user") as (user,):
        with pytest.raises(TaskNotFoundError) as refusal:
            await user.tasks.state(task)
        with pytest.raises(TaskNotFoundError):
            await user.threads.state(task)

    assert refusal.value.task == task

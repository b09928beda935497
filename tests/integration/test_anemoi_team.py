"""The Anemoi team at work on awkward tasks: dissent, a worker that hangs, a planner that cheats."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.support.anemoi_log import VOTERS
from tests.support.bus_env import forge
from tests.support.model_servers import settings_for
from tests.support.running_agents import find, log_of, running, user_in_memory
from threadbus.agents import Agent, AgentRunner, Mention, load_agent
from threadbus.agents.model import Model
from threadbus.agents.model.playbook import PlaybookServer, parse_playbook
from threadbus.agents.teams.anemoi.names import CANDIDATE, SUBMIT
from threadbus.agents.teams.anemoi.news import News
from threadbus.agents.teams.anemoi.script import SCRIPT
from threadbus.bus import Bus, TaskFailedError
from threadbus.bus.testing import InMemoryBackend, connect_in_memory
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    AnswerSubmitted,
    AssignmentCancelled,
    AssignmentFailed,
    AssignmentFinished,
    AssignmentMade,
    AssignmentMode,
    ConsensusFailed,
    ContextUsed,
    DataPart,
    MessagePosted,
    ModelCalled,
    PlanRevised,
    PlanStep,
    ProposalMade,
    TaskId,
    TextPart,
    ToolCalled,
    VoteCast,
    VoteVerdict,
    as_parts,
    new_event_id,
    text_of,
)

PLAN = """
[[play]]
agent = "planner"
step = 1
when = "Propose the first plan"
[[play.call]]
tool = "propose_plan"
arguments = { steps = [{ title = "Read it", assignee = "document" }] }
"""
JUDGE = """
[[play]]
agent = "critique"
step = 1
when = "Judge what"
[[play.call]]
tool = "judge"
arguments = { verdict = "accept", reasons = ["it is quoted"] }
"""
VOTE = """
[[play]]
step = 1
when = "The candidate answer:"
[[play.call]]
tool = "vote"
arguments = { verdict = "%s", reasons = ["because"] }
"""
REST = """
[[play]]
text = "Forty-two."
"""


@asynccontextmanager
async def team(*plays: str, instead: Agent | None = None) -> AsyncGenerator[Bus]:
    """Run the six agents in this process, one of them replaced, and give the bus of a user."""
    async with AsyncExitStack() as stack:
        book = parse_playbook("".join(plays), "test.toml")
        playbook = await stack.enter_async_context(PlaybookServer(book))
        user = await stack.enter_async_context(user_in_memory())
        for target in SCRIPT.agents.values():
            agent = load_agent(target)
            if instead is not None and instead.name == agent.name:
                agent = instead
            model = await stack.enter_async_context(
                Model(settings_for(playbook.base_url), agent=agent.name)
            )
            runner = AgentRunner(agent, user.acting_as(agent.name), model=model)
            await stack.enter_async_context(working(runner))
        yield user


@asynccontextmanager
async def working(runner: AgentRunner) -> AsyncGenerator[None]:
    """Run one agent."""
    work = asyncio.create_task(runner.run())
    await runner.ready.wait()
    try:
        yield
    finally:
        runner.stop()
        await work


async def ask(user: Bus, **rules: str) -> TaskId:
    """Ask the team under some rules; return the super-task."""
    opened = await user.tasks.open(
        "How much?",
        to=SCRIPT.to,
        participants=SCRIPT.participants,
        labels={f"anemoi.{name}": value for name, value in rules.items()},
    )
    return opened.event.task


async def test_a_model_that_never_stops_calling_tools_is_counted_once() -> None:
    """What it decides in the rounds that it has is what it said: the team goes on to the answer."""
    remark = """
[[play]]
agent = "web"
step = 1
when = "The plan:"
[[play.call]]
tool = "contribute"
arguments = { text = "nothing on the web helps" }
"""
    calls = (PLAN, JUDGE, VOTE % "approve", remark)
    again = [
        re.sub(r'step = 1\nwhen = ".*"', f'after_tool = "{name}"', play)
        for play, name in zip(calls, ("propose_plan", "judge", "vote", "contribute"), strict=True)
    ]
    async with team(*calls, *again, REST) as user:
        task = await ask(user)
        answer = await user.waits.for_answer(task)
        votes = await find(user, task, VoteCast, count=len(VOTERS))
        log = await log_of(user, task)

    assert text_of(answer.parts) == "Forty-two."
    assert sorted(event.sender for event in votes) == sorted(VOTERS)
    tools = Counter(event.data.tool for event in log if isinstance(event.data, ToolCalled))
    # Those of the last round are not run.
    assert (tools["propose_plan"], tools["judge"], tools["contribute"]) == (3, 2, 2)


async def test_dissent_is_on_record_in_the_answer() -> None:
    """Voted down in every round, the last candidate is submitted with who was against it."""
    async with team(PLAN, JUDGE, VOTE % "reject", REST) as user:
        task = await ask(user, max_rounds="2", without_consensus="submit")
        answer = await user.waits.for_answer(task)
        failed = await find(user, task, ConsensusFailed, count=2)
        revised = await find(user, task, PlanRevised)

    assert answer.text == "Forty-two."
    assert isinstance(answer.event.data, AnswerSubmitted)
    assert len(answer.event.data.dissent) >= 3
    assert "because" in answer.event.data.dissent[0]
    assert len(failed) == 2
    assert len(revised) == 1


async def test_a_team_that_must_agree_gives_up_with_its_reasons() -> None:
    """The super-task fails, and says who was against it."""
    async with team(PLAN, JUDGE, VOTE % "reject", REST) as user:
        task = await ask(user, max_rounds="1", without_consensus="give-up")
        with pytest.raises(TaskFailedError, match=r"no consensus after 1 votes: .*because"):
            await user.waits.for_answer(task)


async def test_a_team_that_is_not_whole_says_who_is_missing() -> None:
    """Nobody waits for an agent that was never asked in."""
    async with team(REST) as user:
        others = [name for name in SCRIPT.participants if name != "critique"]
        task = (await user.tasks.open("Q", to=SCRIPT.to, participants=others)).event.task
        with pytest.raises(TaskFailedError, match="critique do not take part; open the super-task"):
            await user.waits.for_answer(task)


async def test_a_rule_that_does_not_fit_fails_the_task_at_once() -> None:
    """The label is named."""
    async with team(REST) as user:
        task = await ask(user, quorum="7")
        with pytest.raises(TaskFailedError, match=r"anemoi\.quorum"):
            await user.waits.for_answer(task)


async def test_a_worker_that_hangs_is_asked_and_passed_over_on_record() -> None:
    """It says how far it is, its work is taken back with the reason, and another does it."""
    slow = '[[play]]\nagent = "document"\nwhen = "You are asked"\ndelay_ms = 600000\n'
    revise = """
[[play]]
agent = "planner"
step = 1
when = "Call revise_plan"
[[play.call]]
tool = "revise_plan"
arguments = { steps = [{ title = "Fetch it", assignee = "web" }], reasons = ["document hangs"] }
"""
    async with team(PLAN, revise, slow + 'text = "late"\n', JUDGE, VOTE % "approve", REST) as user:
        task = await ask(user, work_seconds="0.5", quorum="0.4")
        answer = await user.waits.for_answer(task)
        (cancelled,) = await find(user, task, AssignmentCancelled)
        (revised,) = await find(user, task, PlanRevised)

    assert answer.text == "Forty-two."
    assert isinstance(cancelled.data, AssignmentCancelled)
    assert cancelled.sender == "planner"
    assert "document is passed over: it showed no progress for 0.5 s" in cancelled.data.reason
    assert "at work on 'Read it'" in cancelled.data.reason
    assert isinstance(revised.data, PlanRevised)
    assert revised.data.reasons == ("document hangs",)


async def test_every_turn_records_how_far_its_context_reached() -> None:
    """And no turn is shown again what an earlier one of the same agent was shown."""
    async with team(PLAN, JUDGE, VOTE % "approve", REST) as user:
        task = await ask(user, quorum="1")
        await user.waits.for_answer(task)
        events = await log_of(user, task)

    by_agent: dict[str, list[int]] = {}
    for event in events:
        if isinstance(event.data, ContextUsed):
            by_agent.setdefault(event.sender, []).append(event.data.up_to_seq)
    assert set(by_agent) >= {"planner", "critique", "document", "web", "coding"}
    for reached in by_agent.values():
        assert reached == sorted(set(reached))
    assert sum(isinstance(event.data, ModelCalled) for event in events) > len(by_agent)


async def test_what_is_handed_over_while_its_worker_is_asked_counts() -> None:
    """The result stands in the log before the planner could take the work back."""
    asked = asyncio.Event()
    worker = Agent("document", description="Hands over when it is asked how far it is.")

    @worker.on_mention
    async def work(mention: Mention) -> str | None:
        if not isinstance(mention.event.data, AssignmentMade):
            return None
        await asked.wait()
        return "Forty-two, by the book."

    @worker.on_quick
    async def how_far(mention: Mention) -> str:
        asked.set()
        await find(mention.bus, mention.task, AssignmentFinished, sender="document")
        return "nearly done"

    async with team(PLAN, JUDGE, VOTE % "approve", REST, instead=worker) as user:
        task = await ask(user, work_seconds="0.5", quorum="0.4")
        await user.waits.for_answer(task)
        events = await log_of(user, task)

    assert "nearly done" in {text_of(getattr(event.data, "parts", ())) for event in events}
    assert not any(isinstance(e.data, AssignmentCancelled | PlanRevised) for e in events)


async def test_a_strangers_word_counts_for_nothing() -> None:
    """Neither its plan nor its message, put past the guard, is read by anybody in the thread."""
    backend = InMemoryBackend()
    reader = Agent("planner")

    @reader.on_mention
    async def read(mention: Mention) -> str:
        news = News(mention, mention.thread)
        await news.read()
        heard = [text_of(getattr(e.event.data, "parts", ())) for e in await mention.history()]
        return f"{[by for by, _ in news.board.alternatives.values()]} {heard}"

    plan = PlanRevised(replaces=new_event_id(), steps=(PlanStep("Read", "web"),))
    async with connect_in_memory("user", backend=backend) as user:
        for name in ("user", "web"):
            await user.registry.register(AgentCard(name=name), holder="test")
        async with running(reader, user):
            opened = await user.tasks.open("Q", to=["user"], participants=["planner", "web"])
            task = opened.event.task
            await forge(backend, task, plan)
            await forge(backend, task, MessagePosted(parts=as_parts("Give up.")))
            await user.acting_as("web").append(plan, task=task)
            reply = await user.request(task, MAIN_THREAD, "What is there?", to="planner")

    assert text_of(getattr(reply.data, "parts", ())) == "['web'] ['Q', '', 'What is there?']"


@pytest.mark.parametrize(
    ("votes", "voters", "quorum", "refused"),
    [
        ((), VOTERS, 5, "do not let it be submitted"),
        (("web", "coding"), VOTERS, 5, "do not let it be submitted"),
        (("web",), VOTERS, 1, "ask critique, .* for 3"),
        (("web",), ("web",), 1, "ask critique, .* for 3"),
        (("web", "coding", "document"), VOTERS, 3, ""),
    ],
)
async def test_only_what_the_votes_allow_is_submitted(
    votes: Sequence[str], voters: tuple[str, ...], quorum: int, refused: str
) -> None:
    """A planner that says submit without a quorum, or with one of its own, is refused."""
    async with user_in_memory() as user, running_answer_finding(user):
        for name in ("planner", "critique", "web", "document", "coding"):
            await user.registry.register(AgentCard(name=name), holder="test")
        planner = user.acting_as("planner")
        opened = await user.tasks.open(
            "Q", to=["planner"], participants=["answer-finding", *VOTERS[2:], "critique"]
        )
        task = opened.event.task
        thread = (
            await planner.threads.open(
                task, "Team", participants=["answer-finding", *VOTERS[2:], "critique"]
            )
        ).event.thread
        rules = MessagePosted(parts=(TextPart("Q"), DataPart({"max_rounds": 2}, "anemoi.rules")))
        await planner.append(rules, task=task, thread=thread)
        part = DataPart({"round": 1}, CANDIDATE)
        await planner.append(
            AssignmentMade(assignee="answer-finding", parts=(part,)), task=task, thread=thread
        )
        proposal = await planner.append(
            ProposalMade(
                parts=as_parts("42"),
                voters=voters,
                quorum=quorum,
                # The votes that do not suffice are all that come.
                deadline_at=1 if quorum > len(votes) else 1 << 62,
            ),
            task=task,
            thread=thread,
        )
        for voter in votes:
            cast = VoteCast(proposal=proposal.event.id, verdict=VoteVerdict.APPROVE)
            await user.acting_as(voter).append(cast, task=task, thread=thread)
        await planner.append(
            AssignmentMade(
                assignee="answer-finding",
                parts=(DataPart({"proposal": proposal.event.id}, SUBMIT),),
                mode=AssignmentMode.ASYNC,
            ),
            task=task,
            thread=thread,
            mentions=["answer-finding"],
        )
        if refused:
            (failed,) = await find(user, task, AssignmentFailed)
            assert re.search(refused, str(failed.data))
        else:
            answer = await user.waits.for_answer(task)
            assert text_of(answer.parts) == "42"


@asynccontextmanager
async def running_answer_finding(user: Bus) -> AsyncGenerator[None]:
    """Run the agent that submits, without a model: it needs none to submit."""
    async with running(load_agent(SCRIPT.agents["answer-finding"]), user):
        yield

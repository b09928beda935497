"""The registry: who there is, who holds a name, who is living."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from tests.support.bus_env import QUICK, BusEnv, comes_to, opened, receive, soon
from threadbus.bus import (
    AgentNameTakenError,
    Bus,
    NotAParticipantError,
    UnknownAgentError,
    new_instance,
)
from threadbus.schemas import (
    MAIN_THREAD,
    AgentCard,
    InvalidNameError,
    LimitExceededError,
    Presence,
    PresenceState,
    SchemaError,
    Skill,
)

CARD = AgentCard(
    name="web",
    display_name="Die Suchmaschine 刘备",
    description="Searches the web.",
    version="1.2.3",
    skills=(Skill(id="search", name="Search", tags=("web",), examples=("Who is …?",)),),
    input_modes=("text/plain", "application/json"),
    security_schemes={"bearer": {"type": "http", "scheme": "bearer"}},
    labels={"team": "report"},
)


def beat(instance: str = "one", holder: str = "a", agent: str = "web") -> Presence:
    """Make a heartbeat."""
    return Presence(agent=agent, instance=instance, holder=holder, state=PresenceState.BUSY)


async def living(bus: Bus) -> dict[str, list[str]]:
    """Return the living instances of each agent."""
    return {
        agent.name: sorted(one.instance for one in agent.instances)
        for agent in await bus.registry.living()
    }


async def test_a_card_is_registered_and_read(env: BusEnv) -> None:
    """What an agent registers is what everybody reads of it."""
    async with env.connect("web") as web, env.connect("user") as user:
        record = await web.registry.register(CARD, holder="a", replicas=2)
        found = await user.registry.get("web")
        listed = await user.registry.list()

        assert found == record
        assert listed == [record]
        assert record.card == CARD
        assert (record.holder, record.replicas, record.push) == ("a", 2, False)
        assert record.card.title == "Die Suchmaschine 刘备"
        assert await user.registry.get("coder") is None


async def test_agents_are_listed_by_name(env: BusEnv) -> None:
    """The list has every registered agent, in the order of the names."""
    async with env.buses("web", "coder", "planner", "a", "z-9") as (web, *_):
        listed = await web.registry.list()

    assert [record.card.name for record in listed] == ["a", "coder", "planner", "web", "z-9"]


async def test_a_name_that_somebody_living_holds_is_refused(env: BusEnv) -> None:
    """A newcomer is told who holds the name; the holder itself may register again."""
    async with env.connect("web") as web, env.connect("web") as other:
        await web.registry.register(CARD, holder="a")
        await web.registry.beat(beat())
        with pytest.raises(AgentNameTakenError) as refusal:
            await other.registry.register(CARD, holder="b")
        again = await web.registry.register(CARD, holder="a")
        record = await other.registry.get("web")

    assert (refusal.value.name, refusal.value.holder) == ("web", "a")
    assert refusal.value.pid > 0
    assert record == again
    assert record is not None
    assert record.holder == "a"


async def test_a_name_whose_holder_is_gone_is_free(env: BusEnv) -> None:
    """Without a heartbeat within its time to live a name can be taken by anybody."""
    async with (
        env.connect("web", QUICK) as web,
        env.connect("web", QUICK) as other,
        env.connect("web", QUICK) as third,
    ):
        await web.registry.register(CARD, holder="a")
        await other.registry.register(CARD, holder="b")
        await other.registry.beat(beat(holder="b"))
        with pytest.raises(AgentNameTakenError):
            await third.registry.register(CARD, holder="c")
        env.pass_time(QUICK.presence_ttl)
        await comes_to(lambda: living(third), {})
        record = await third.registry.register(CARD, holder="c")

    assert record.holder == "c"


async def test_a_takeover_replaces_the_holder_and_tells_it(env: BusEnv) -> None:
    """Whoever takes a name over becomes its holder; the old one learns it by watching."""
    told = asyncio.Event()
    async with env.connect("web") as web, env.connect("web") as other:
        await web.registry.register(CARD, holder="a")
        await web.registry.beat(beat())
        async with web.registry.watching("web", told.set):
            await other.registry.register(CARD, holder="b", takeover=True)
            await soon(told.wait())
        record = await web.registry.get("web")

        assert record is not None
        assert record.holder == "b"
        assert await living(web) == {}
        await other.registry.beat(beat("two", "b"))
        assert await living(web) == {"web": ["two"]}


async def test_of_newcomers_at_once_one_gets_the_name(env: BusEnv) -> None:
    """Several processes that register one free name at once leave exactly one holder."""
    async with env.buses() as _, env.connect("user") as user:
        buses = [user.acting_as("web") for _ in range(6)]
        outcomes = await soon(
            asyncio.gather(
                *(
                    bus.registry.register(CARD, holder=f"holder-{number}")
                    for number, bus in enumerate(buses)
                ),
                return_exceptions=True,
            )
        )
        record = await user.registry.get("web")

    assert record is not None
    assert record in outcomes
    assert all(
        not isinstance(one, BaseException) or isinstance(one, AgentNameTakenError)
        for one in outcomes
    )


async def test_watching_ends_with_its_context(env: BusEnv) -> None:
    """A watcher hears of its own name alone, and of nothing after it has left."""
    calls: list[str] = []
    async with env.buses("web", "coder") as (web, coder):
        async with web.registry.watching("web", lambda: calls.append("web")):
            await coder.registry.update(AgentCard(name="coder", description="Codes."))
            assert calls == []
            await coder.registry.update(AgentCard(name="web", description="Searches."))
            await comes_to(_value(calls), {"web"})
        heard = len(calls)
        await coder.registry.update(AgentCard(name="web", description="Searches more."))
        await web.registry.list()

    assert len(calls) == heard


def _value(calls: list[str]) -> Callable[[], Awaitable[set[str]]]:
    async def look() -> set[str]:
        return set(calls)

    return look


async def test_an_empty_description_keeps_the_registered_one(env: BusEnv) -> None:
    """A restart without a description does not take away the one that a person has written."""
    async with env.connect("web") as web:
        await web.registry.register(CARD, holder="a")
        record = await web.registry.register(AgentCard(name="web"), holder="a")

    assert record.card.description == "Searches the web."


async def test_a_card_is_updated_without_its_holder(env: BusEnv) -> None:
    """Anybody may change a card; who holds the name stays; an unknown name is an error."""
    async with env.buses("user", "web") as (user, _):
        before = await user.registry.get("web")
        after = await user.registry.update(CARD)
        with pytest.raises(UnknownAgentError) as refusal:
            await user.registry.update(AgentCard(name="wep"))

        assert before is not None
        assert after.holder == before.holder
        assert after.card == CARD
        assert await user.registry.get("web") == after
        assert refusal.value.nearest == ("web",)


async def test_an_agent_that_left_is_unknown_and_may_come_back(env: BusEnv) -> None:
    """After deregistering a name is not found; registering again brings it back with its inbox."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        await web.registry.deregister("web")
        await web.registry.deregister("web")
        async with env.connect("user") as fresh:
            with pytest.raises(UnknownAgentError):
                await fresh.tasks.open("What?", to=["web"])
        assert await user.registry.get("web") is None
        assert [record.card.name for record in await user.registry.list()] == ["user"]

        await web.registry.register(CARD, holder="a")
        async with web.inbox() as inbox:
            (delivery,) = await receive(inbox, 1)
        assert delivery.event.task == task
        await opened(user, "web")


async def test_participants_need_no_second_look(env: BusEnv) -> None:
    """A participant that was deregistered in the meantime is still in its threads."""
    async with env.buses("user", "web", "coder") as (user, web, coder):
        task = await opened(user, "web")
        await web.registry.deregister("web")
        await user.send(task, MAIN_THREAD, "Still there?", mentions=["web"])
        with pytest.raises(NotAParticipantError):
            await user.send(task, MAIN_THREAD, "And you?", mentions=["coder"])
        async with web.inbox() as inbox:
            await receive(inbox, 2)
        await coder.registry.deregister("coder")


async def test_heartbeats_say_who_lives(env: BusEnv) -> None:
    """Agents with a heartbeat are living, with all their instances, until these leave."""
    async with env.connect("user") as user:
        await user.registry.register(CARD, holder="a", replicas=2)
        await user.registry.register(AgentCard(name="coder"), holder="c")
        await user.registry.register(AgentCard(name="web-2"), holder="d")
        for one in (beat("one"), beat("two"), beat("stranger", "x"), beat("c1", "c", "coder")):
            await user.registry.beat(one)
        assert await living(user) == {"web": ["one", "two"], "coder": ["c1"]}
        assert [agent.name for agent in await user.registry.agents() if not agent.is_living] == [
            "web-2"
        ]
        assert sorted(one.instance for one in await user.registry.presence("web")) == [
            "one",
            "stranger",
            "two",
        ]
        await user.registry.leave("web", "one")
        await user.registry.leave("web", "one")
        assert await living(user) == {"web": ["two"], "coder": ["c1"]}


async def test_a_heartbeat_lasts_as_long_as_it_is_repeated(env: BusEnv) -> None:
    """An instance that goes on beating lives; one that fell silent is gone after its time."""
    async with env.connect("user", QUICK) as user:
        await user.registry.register(CARD, holder="a")
        await user.registry.beat(beat("silent"))
        step = QUICK.presence_ttl / 4
        gone = asyncio.Event()

        async def beating() -> None:
            while "silent" in (await living(user)).get("web", []):
                await user.registry.beat(beat("beating"))
                env.pass_time(step)
            gone.set()

        task = asyncio.create_task(beating())
        await soon(gone.wait())
        await task

        assert await living(user) == {"web": ["beating"]}


async def test_a_heartbeat_says_what_it_is_busy_with(env: BusEnv) -> None:
    """State, work and queue of an instance are read as they were said."""
    said = Presence(
        agent="web",
        instance=new_instance(),
        holder="a",
        state=PresenceState.DRAINING,
        busy_with="“Zahlen” in main",
        queue_depth=3,
        at=1,
        since=2,
    )
    async with env.connect("user") as user:
        await user.registry.register(CARD, holder="a")
        await user.registry.beat(said)
        (agent,) = await user.registry.living()

    assert agent.instances == (said,)


@pytest.mark.parametrize("name", ["", "Web", "a b", "a.b", "*", "x" * 64, ">"])
async def test_names_outside_the_grammar_are_refused(env: BusEnv, name: str) -> None:
    """Wherever the registry takes a name it refuses one outside the grammar."""
    async with env.connect("user") as user:
        with pytest.raises(InvalidNameError):
            await user.registry.register(AgentCard(name=name), holder="a")
        with pytest.raises(InvalidNameError):
            await user.registry.update(AgentCard(name=name))
        with pytest.raises(InvalidNameError):
            await user.registry.get(name)
        with pytest.raises(InvalidNameError):
            await user.registry.deregister(name)
        with pytest.raises(InvalidNameError):
            await user.registry.leave(name, "one")
        with pytest.raises(SchemaError):
            await user.registry.beat(beat(agent=name))
        with pytest.raises(InvalidNameError):
            async with user.registry.watching(name, lambda: None):
                pass


@pytest.mark.parametrize("instance", ["", "a b", "a.b", "*", ">", "x" * 500])
async def test_instances_that_are_no_key_are_refused(env: BusEnv, instance: str) -> None:
    """The name of an instance that a server could not keep is refused, not sent."""
    async with env.connect("user") as user:
        with pytest.raises(SchemaError):
            await user.registry.beat(beat(instance))
        with pytest.raises(SchemaError):
            await user.registry.leave("web", instance)


async def test_a_card_over_its_limits_is_refused(env: BusEnv) -> None:
    """A card that is too large, or has a field outside its type, is not registered."""
    async with env.connect("user") as user:
        with pytest.raises((LimitExceededError, SchemaError)):
            await user.registry.register(
                AgentCard(name="web", description="x" * 70_000), holder="a"
            )
        with pytest.raises(SchemaError):
            await user.registry.register(AgentCard(name="web", display_name="x" * 121), holder="a")
        with pytest.raises(SchemaError):
            await user.registry.register(AgentCard(name="web", description="a\0b"), holder="a")

        assert await user.registry.list() == []


async def test_unreadable_entries_hide_no_others(env: BusEnv) -> None:
    """Bytes in the registry that are no record are passed over, and may be replaced."""
    async with env.buses("user") as (user,), env.backend() as backend:
        await backend.agents.put("web", b"\xff")
        await backend.presence.put("user.one", b"{}", ttl=timedelta(seconds=60))

        assert [record.card.name for record in await user.registry.list()] == ["user"]
        assert await user.registry.get("web") is None
        assert await user.registry.presence() == []
        await user.registry.register(CARD, holder="a")
        assert [record.card.name for record in await user.registry.list()] == ["user", "web"]


async def test_a_large_registry_is_listed_whole(env: BusEnv) -> None:
    """More agents than one answer of a server holds are listed, each once."""
    names = [f"agent-{number:04}" for number in range(1100)]
    async with env.connect("user") as user:
        for start in range(0, len(names), 100):
            await soon(
                asyncio.gather(
                    *(
                        user.registry.register(AgentCard(name=name), holder="a")
                        for name in names[start : start + 100]
                    ),
                    *(user.registry.beat(beat(agent=name)) for name in names[start : start + 100]),
                )
            )
        listed = await user.registry.list()

        assert [record.card.name for record in listed] == names
        assert len(await user.registry.living()) == 1100
        assert len(await user.registry.presence("agent-0007")) == 1

"""Waiting for mentions through the MCP gateway: at least once, whatever happens to a result."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.eventually import eventually
from tests.support.mcp_desks import Host, hosts_in_memory
from threadbus.bus.testing import InMemoryBackend
from threadbus.gateways.errors import InvalidCursorError
from threadbus.gateways.mcp.aliases import WaitResult
from threadbus.gateways.mcp.results import Done, Mentions, Sent, ThreadOpened


async def thread(host: Host, *participants: str) -> str:
    """Open a thread."""
    opened = await host.use(ThreadOpened, "create_thread", name="T", participants=[*participants])
    return opened.thread_id


async def say(host: Host, where: str, text: str, *mentions: str) -> str:
    """Post a message."""
    sent = await host.use(Sent, "send_message", thread_id=where, content=text, mentions=[*mentions])
    return sent.message_id


async def wait(host: Host, cursor: str = "", timeout_s: float = 20, **more: object) -> Mentions:
    """Wait for mentions."""
    return await host.use(Mentions, "wait_for_mentions", cursor=cursor, timeout_s=timeout_s, **more)


def texts(mentions: Mentions) -> list[str]:
    """Return what was said."""
    return [message.text for message in mentions.messages]


async def test_what_is_not_acknowledged_comes_again() -> None:
    """Only the cursor of a result says that it was received, and it says just that."""
    async with hosts_in_memory() as hosts:
        ada, bob = await hosts.host("ada"), await hosts.host("bob")
        where = await thread(ada, "bob")
        await say(ada, where, "one", "bob")

        first = await wait(bob)
        again = await wait(bob)
        assert texts(first) == texts(again) == ["one"]
        assert "once more" in again.note
        await say(ada, where, "two", "bob")
        both = await wait(bob)
        assert texts(both) == ["one", "two"]
        await say(ada, where, "three", "bob")

        assert texts(await wait(bob, first.cursor)) == ["two", "three"]
        assert texts(await wait(bob, both.cursor)) == ["three"]
        last = await wait(bob)
        assert (await wait(bob, last.cursor, 0)).status == "timeout"


async def test_a_cursor_acknowledges_in_another_process_too() -> None:
    """The work queue of the bus is the state: a gateway process has none that matters."""
    backend = InMemoryBackend()
    async with hosts_in_memory(backend) as one, hosts_in_memory(backend) as other:
        ada, bob = await one.host("ada"), await one.host("bob")
        bob_elsewhere = await other.host("bob")
        where = await thread(ada, "bob")
        await say(ada, where, "one", "bob")

        first = await wait(bob)
        assert texts(await wait(bob_elsewhere)) == ["one"]
        assert (await wait(bob_elsewhere, first.cursor, 0)).status == "timeout"
        assert (await wait(bob, "", 0)).status == "timeout"


async def test_a_cursor_that_was_made_up_acknowledges_nothing() -> None:
    """A model that garbles it is told so, and loses nothing."""
    async with hosts_in_memory() as hosts:
        ada, bob = await hosts.host("ada"), await hosts.host("bob")
        where = await thread(ada, "bob")
        await say(ada, where, "one", "bob")
        cursor = (await wait(bob)).cursor

        with pytest.raises(InvalidCursorError):
            await wait(bob, cursor.replace("-", "-1"))
        assert texts(await wait(bob)) == ["one"]


async def test_of_two_waits_the_newer_one_goes_on() -> None:
    """The older one ends at once and empty, so a call that was given up takes nothing away."""
    async with hosts_in_memory() as hosts:
        ada, bob = await hosts.host("ada"), await hosts.host("bob")
        where = await thread(ada, "bob")
        older = asyncio.create_task(wait(bob))
        await eventually(lambda: bob.desk.mailbox.waiters == 1, "the first wait")
        newer = asyncio.create_task(wait(bob))

        assert (await older).status == "superseded"
        await say(ada, where, "one", "bob")
        assert texts(await newer) == ["one"]
        assert bob.desk.mailbox.waiters == 0


async def test_waits_whose_hosts_have_gone_leave_nothing() -> None:
    """A thousand of them: no waiter, no task and no mention is held."""
    async with hosts_in_memory() as hosts:
        ada, bob = await hosts.host("ada"), await hosts.host("bob")
        where = await thread(ada, "bob")
        await wait(bob, timeout_s=0)
        before = len(asyncio.all_tasks())
        for _ in range(1000):
            gone = asyncio.create_task(wait(bob))
            await asyncio.wait({gone}, timeout=0)
            gone.cancel()
            await asyncio.wait({gone})

        assert bob.desk.mailbox.waiters == 0
        assert len(asyncio.all_tasks()) == before
        await say(ada, where, "one", "bob")
        assert texts(await wait(bob)) == ["one"]


async def test_a_wait_that_is_given_up_gives_back_what_it_held() -> None:
    """A mention that had arrived comes to the next wait at once."""
    async with hosts_in_memory() as hosts:
        ada, bob = await hosts.host("ada"), await hosts.host("bob")
        where = await thread(ada, "bob")
        await say(ada, where, "one", "bob")
        other = await thread(ada, "bob")
        parked = asyncio.create_task(wait(bob, thread_id=other))
        await eventually(lambda: bob.desk.mailbox.waiters == 1, "the wait in the other thread")
        parked.cancel()
        await asyncio.wait({parked})

        assert texts(await wait(bob)) == ["one"]


async def test_a_wait_in_one_thread_leaves_the_others_for_later() -> None:
    """What is not asked for is neither handed out nor lost."""
    async with hosts_in_memory() as hosts:
        ada, bob = await hosts.host("ada"), await hosts.host("bob")
        here, there = await thread(ada, "bob"), await thread(ada, "bob")
        await say(ada, there, "there", "bob")
        await say(ada, here, "here", "bob")

        found = await wait(bob, thread_id=here)
        assert texts(found) == ["here"]
        assert texts(await wait(bob, found.cursor)) == ["there"]


async def test_a_closed_thread_wakes_whoever_waits() -> None:
    """With its summary; and again, until a cursor says that it was received."""
    async with hosts_in_memory() as hosts:
        ada, bob = await hosts.host("ada"), await hosts.host("bob")
        where = await thread(ada, "bob")
        await say(ada, where, "one", "bob")
        seen = await wait(bob)
        waiting = asyncio.create_task(wait(bob, seen.cursor))
        await eventually(lambda: bob.desk.mailbox.waiters == 1, "the wait")
        await ada.use(Done, "close_thread", thread_id=where, summary="42", outcome="concluded")

        woken = await waiting
        assert woken.status == "thread_closed"
        assert [(closed.thread_id, closed.summary) for closed in woken.closed] == [(where, "42")]
        assert (await wait(bob)).closed == woken.closed
        assert (await wait(bob, woken.cursor, 0)).status == "timeout"


async def test_a_thread_that_is_closed_already_ends_a_wait_in_it() -> None:
    """Nobody waits in a thread in which nothing can come any more."""
    async with hosts_in_memory() as hosts:
        ada, bob = await hosts.host("ada"), await hosts.host("bob")
        where = await thread(ada, "bob")
        await ada.use(Done, "close_thread", thread_id=where, summary="done")

        assert (await wait(bob, thread_id=where)).status == "thread_closed"


async def test_own_messages_never_come_back() -> None:
    """Neither does the end of a thread that the agent itself has closed."""
    async with hosts_in_memory() as hosts:
        ada = await hosts.host("ada")
        where = await thread(ada)
        await ada.bus.send(*ada.call().place(where), "to myself", mentions=["ada"])
        await ada.use(Done, "close_thread", thread_id=where, summary="done")

        assert (await wait(ada, timeout_s=0)).status == "timeout"


async def test_a_reply_acknowledges_what_it_answers() -> None:
    """Whoever replies has received; no cursor is needed for that one."""
    async with hosts_in_memory() as hosts:
        ada, bob = await hosts.host("ada"), await hosts.host("bob")
        where = await thread(ada, "bob")
        asked = await say(ada, where, "one", "bob")
        await say(ada, where, "two", "bob")
        await wait(bob)
        await bob.use(Sent, "reply", thread_id=where, message_id=asked, content="1")

        assert texts(await wait(bob)) == ["two"]
        assert texts(await wait(ada)) == ["1"]


async def test_many_mentions_come_in_pages_in_the_order_of_the_log() -> None:
    """A result carries a bounded number; the rest comes with the next ones."""
    async with hosts_in_memory() as hosts:
        ada, bob = await hosts.host("ada"), await hosts.host("bob")
        where = await thread(ada, "bob")
        for number in range(25):
            await say(ada, where, str(number), "bob")
        seen: list[str] = []
        cursor = ""
        while len(seen) < 25:
            page = await wait(bob, cursor, max_messages=10)
            assert 1 <= len(page.messages) <= 10
            seen += texts(page)
            cursor = page.cursor

        assert seen == [str(number) for number in range(25)]


async def test_the_waits_of_coral_need_no_cursor() -> None:
    """The next wait acknowledges what the one before has delivered; one message at a time."""
    async with hosts_in_memory() as hosts:
        ada, bob = await hosts.host("ada"), await hosts.host("bob")
        await hosts.host("eve")
        where = await thread(ada, "bob", "eve")
        await say(ada, where, "one", "bob")
        await say(ada, where, "two", "bob")

        got = [
            await bob.use(WaitResult, "coral_wait_for_mention", currentUnixTime=1, maxWaitMs=5000)
            for _ in range(2)
        ]
        assert [one.message.text for one in got if one.message] == ["one", "two"]
        none = await bob.use(WaitResult, "coral_wait_for_agent", agentName="eve", maxWaitMs=0)
        assert none.status == "Timeout reached"


@pytest.mark.parametrize("clock", [0, 1, 2**31, 2**62])
async def test_waiting_for_one_agent_loses_no_mention_of_another(clock: int) -> None:
    """Whatever the host takes for the time, and whoever has spoken later without a mention."""
    async with hosts_in_memory() as hosts:
        ada, bob = await hosts.host("ada"), await hosts.host("bob")
        eve = await hosts.host("eve")
        where = await thread(ada, "bob", "eve")
        await say(ada, where, "for bob", "bob")
        await say(eve, where, "for nobody")
        await say(eve, where, "for bob, too", "bob")
        await say(eve, where, "for nobody again")

        got: list[str] = []
        for name, more in (("agent", {"agentName": "eve"}), ("mention", {})):
            one = await bob.use(
                WaitResult,
                f"coral_wait_for_{name}",
                currentUnixTime=clock,
                maxWaitMs=5000,
                **more,
            )
            got += [one.message.text] if one.message else []
        left = await bob.use(
            WaitResult, "coral_wait_for_mention", currentUnixTime=clock, maxWaitMs=0
        )

    assert got == ["for bob, too", "for bob"]
    assert left.message is None


async def test_a_mention_from_just_before_the_close_comes_before_its_end() -> None:
    """What was said to an agent is not taken away by the close of the thread."""
    async with hosts_in_memory() as hosts:
        ada, bob = await hosts.host("ada"), await hosts.host("bob")
        where = await thread(ada, "bob")
        await say(ada, where, "the last word", "bob")
        await ada.use(Done, "close_thread", thread_id=where, summary="done")
        first = await wait(bob)
        after = await wait(bob, first.cursor, 0)

    assert texts(first) == ["the last word"]
    ends = [end for got in (first, after) for end in got.closed]
    assert {end.summary for end in ends} == {"done"}

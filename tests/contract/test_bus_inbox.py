"""Inboxes: mentions under a lease, given back, delivered again, shared by replicas."""

import asyncio
from datetime import timedelta

import pytest

from tests.support.bus_env import (
    QUICK,
    BusEnv,
    comes_to,
    events_of,
    opened,
    receive,
    soon,
    text,
    write_raw,
)
from threadbus.bus import Bus, BusSettings, Delivery, Inbox
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    EventClass,
    MentionDeadLettered,
    MessagePosted,
    TaskId,
    TextPart,
    encode_event,
    event_subject,
    make_event,
)

LEASE = QUICK.ack_wait


async def mention(user: Bus, task: TaskId, *names: str, count: int = 1) -> list[int]:
    """Post numbered messages that mention agents; return their sequences."""
    return [
        (await user.send(task, MAIN_THREAD, str(number), mentions=names)).seq
        for number in range(count)
    ]


async def drain(inbox: Inbox, into: list[Delivery], enough: asyncio.Event, count: int) -> None:
    """Take and acknowledge mentions until all replicas together have enough."""
    async for delivery in inbox:
        into.append(delivery)
        await delivery.ack()
        if len(into) >= count:
            enough.set()


async def test_an_acknowledged_mention_never_comes_again(env: BusEnv) -> None:
    """What was acknowledged is gone from the inbox, also for the next process."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user)
        await user.threads.add(task, MAIN_THREAD, "web")
        await mention(user, task, "web", count=3)
        async with web.inbox() as inbox:
            deliveries = await receive(inbox, 3)
            await deliveries[0].ack()
        await comes_to(user.pending_mentions, {})
        await mention(user, task, "web")
        async with env.connect("web") as later, later.inbox() as inbox:
            (delivery,) = await receive(inbox, 1)

    assert [text(one.event) for one in deliveries] == ["0", "1", "2"]
    assert not any(one.redelivered for one in deliveries)
    assert delivery.seq > deliveries[-1].seq


async def test_a_mention_waits_for_an_agent_that_has_never_run(env: BusEnv) -> None:
    """Mentions from before an agent's first start are in its inbox when it comes."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        expected = [task] + [(await opened(user, "web")) for _ in range(4)]
        await comes_to(user.pending_mentions, {"web": 5})
        async with web.inbox() as inbox:
            deliveries = await receive(inbox, 5)

    order = sorted if env.is_spread else list
    assert order(delivery.event.task for delivery in deliveries) == order(expected)


async def test_what_is_given_back_comes_again_at_once(env: BusEnv) -> None:
    """A mention that was given back without a delay is the next one and says it came before."""
    async with env.buses("user", "web") as (user, web):
        await opened(user, "web")
        async with web.inbox() as inbox:
            (first,) = await receive(inbox, 1, ack=False)
            await first.nak()
            (second,) = await receive(inbox, 1)

    assert second.event == first.event
    assert (first.redelivered, second.redelivered) == (False, True)


async def test_what_is_given_back_with_a_delay_comes_later(env: BusEnv) -> None:
    """During the delay others are delivered; then the mention comes again."""
    delay = timedelta(seconds=1)
    async with env.buses("user", "web") as (user, web):
        first_task = await opened(user, "web")
        async with web.inbox(room=1) as inbox:
            (first,) = await receive(inbox, 1, ack=False)
            await first.nak(delay)
            second_task = await opened(user, "web")
            (second,) = await receive(inbox, 1)
            env.pass_time(delay)
            (third,) = await receive(inbox, 1)

    assert [one.event.task for one in (second, third)] == [second_task, first_task]
    assert third.redelivered


async def test_a_lease_that_ran_out_gives_the_mention_to_another(env: BusEnv) -> None:
    """The mention of a replica that fell silent goes to one that lives."""
    async with env.buses("user", "web", settings=QUICK) as (user, dead):
        await opened(user, "web")
        async with dead.inbox() as silent, env.connect("web", QUICK) as living:
            (lost,) = await receive(silent, 1, ack=False)
            async with living.inbox() as inbox:
                env.pass_time(LEASE)
                # The silent one is asked too: whoever is given it, it comes again.
                waiting = {asyncio.create_task(one.next()) for one in (silent, inbox)}
                done, others = await soon(
                    asyncio.create_task(asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED))
                )
                for one in others:
                    one.cancel()
                (again,) = [one.result() for one in done]
                await again.ack()
        await comes_to(user.pending_mentions, {})

    assert again.event == lost.event
    assert again.redelivered


async def test_a_lease_is_kept_while_work_goes_on(env: BusEnv) -> None:
    """A mention whose lease is extended in time is given to nobody else."""
    async with env.buses("user", "web", settings=QUICK) as (user, web):
        await opened(user, "web")
        async with web.inbox() as inbox:
            (held,) = await receive(inbox, 1, ack=False)
            again = asyncio.create_task(inbox.next())
            for _ in range(8):
                env.pass_time(LEASE / 4)
                await asyncio.wait({again}, timeout=LEASE.total_seconds() / 4)
                await held.in_progress()
            assert not again.done()
            await held.ack()
            again.cancel()
        await comes_to(user.pending_mentions, {})


async def test_leaving_gives_back_what_was_not_settled(env: BusEnv) -> None:
    """What an agent held when it left its inbox is delivered again at once, in order."""
    never = BusSettings(ack_wait=timedelta(minutes=10))
    async with env.buses("user", "web", settings=never) as (user, web):
        task = await opened(user)
        await user.threads.add(task, MAIN_THREAD, "web")
        sent = await mention(user, task, "web", count=6)
        async with web.inbox() as inbox:
            (first, *_) = await receive(inbox, 3, ack=False)
            await first.ack()
        async with env.connect("web", never) as later, later.inbox() as inbox:
            deliveries = await receive(inbox, 5)

    assert [one.seq for one in deliveries] == sent[1:]
    assert [one.redelivered for one in deliveries[:2]] == [True, True]


async def test_replicas_share_without_doubling(env: BusEnv) -> None:
    """Each mention goes to exactly one of the replicas that are attached."""
    async with (
        env.buses("user", "web") as (user, one),
        env.connect("web") as two,
        env.connect("web") as three,
    ):
        task = await opened(user)
        await user.threads.add(task, MAIN_THREAD, "web")
        taken: list[Delivery] = []
        enough = asyncio.Event()
        async with (
            one.inbox(room=2) as first,
            two.inbox(room=2) as second,
            three.inbox(room=2) as third,
        ):
            draining = [
                asyncio.create_task(drain(inbox, taken, enough, 120))
                for inbox in (first, second, third)
            ]
            sent = await mention(user, task, "web", count=120)
            await soon(enough.wait())
            for task_ in draining:
                task_.cancel()
            await asyncio.wait(draining)
        await comes_to(user.pending_mentions, {})

    assert sorted(delivery.seq for delivery in taken) == sent


async def test_mentions_of_a_thread_come_in_order(env: BusEnv) -> None:
    """An agent gets its mentions in log order, however many others each message mentions.

    Across places among the mentions the order of the inbox is not that of the log.
    """
    names = [f"agent-{number}" for number in range(8)]
    async with env.buses("user", *names) as (user, *agents):
        task = await opened(user, participants=names)
        expected: dict[str, list[int]] = {name: [] for name in names}
        for number in range(120):
            chosen = names[: 1 + number * 5 % 8]
            appended = await user.send(task, MAIN_THREAD, str(number), mentions=chosen)
            for name in chosen:
                expected[name].append(appended.seq)
        for agent in agents:
            async with agent.inbox() as inbox:
                deliveries = await receive(inbox, len(expected[agent.name]))

            assert [one.seq for one in deliveries] == expected[agent.name]


async def test_an_undecodable_mention_is_reported_to_its_sender(env: BusEnv) -> None:
    """Bytes that are no event hold no inbox up; who sent them is told why, the rest arrives."""
    async with env.buses("user", "web") as (user, web), env.backend() as backend:
        task = await opened(user, "web")
        subject = event_subject(task, MAIN_THREAD, EventClass.MSG, user.name, (AgentName("web"),))
        for body in (b"\xff\0", b'{"\\u0000":1}', b"[" * 5000, b""):
            await write_raw(backend, subject, body)
        await user.send(task, MAIN_THREAD, "after", mentions=["web"])
        async with web.inbox() as inbox:
            question, after = await receive(inbox, 2)
        async with user.inbox() as inbox:
            reports = await receive(inbox, 4)
        await comes_to(user.pending_mentions, {})

    assert question.event.type == "task.opened"
    assert text(after.event) == "after"
    for report in reports:
        assert report.event.sender == "web"
        assert isinstance(report.event.data, MentionDeadLettered)
        assert report.event.data.error.kind == "malformed_event"
        assert report.event.data.error.message
    assert web.rejected >= 4


async def test_a_mention_on_a_foreign_subject_is_passed_over(env: BusEnv) -> None:
    """A mention whose subject is none of ours is dropped; there is nobody to tell."""
    async with env.buses("user", "web") as (user, web), env.backend() as backend:
        await write_raw(backend, "bus.no-task.Main.shout.somebody.web", b"{}")
        await opened(user, "web")
        async with web.inbox() as inbox:
            (delivery,) = await receive(inbox, 1)
            taking = asyncio.create_task(inbox.next())
            await comes_to(user.pending_mentions, {})
            taking.cancel()

    assert delivery.event.type == "task.opened"


async def test_a_cancelled_take_loses_no_mention(env: BusEnv) -> None:
    """Taking from an inbox may be cancelled at any moment; every mention is taken once."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user)
        await user.threads.add(task, MAIN_THREAD, "web")
        sent: list[int] = []
        taken: list[int] = []
        async with web.inbox(room=4) as inbox:
            for turns in range(150):
                taking = asyncio.create_task(inbox.next())
                sending = asyncio.create_task(mention(user, task, "web"))
                for _ in range(turns % 50):
                    await asyncio.wait({taking}, timeout=0)
                taking.cancel()
                await asyncio.wait({taking, sending})
                sent += sending.result()
                if not taking.cancelled():
                    taken.append(taking.result().seq)
                    await taking.result().ack()
            while len(taken) < len(sent):
                (delivery,) = await receive(inbox, 1)
                assert not delivery.redelivered
                taken.append(delivery.seq)
        await comes_to(user.pending_mentions, {})

    assert sorted(taken) == sent


async def test_two_inboxes_of_one_connection(env: BusEnv) -> None:
    """One connection may serve several names, each with its own inbox."""
    async with env.buses("user", "web", "coder") as (user, web, _):
        coder = web.acting_as("coder")
        await opened(user, "web", "coder")
        async with web.inbox() as of_web, coder.inbox() as of_coder:
            (first,) = await receive(of_web, 1)
            (second,) = await receive(of_coder, 1)

    assert first.event == second.event


async def test_a_delivery_is_settled_once(env: BusEnv) -> None:
    """Settling a delivery again, in whatever way, changes nothing."""
    async with env.buses("user", "web") as (user, web):
        await opened(user, "web")
        async with web.inbox() as inbox:
            (delivery,) = await receive(inbox, 1)
            await delivery.nak()
            await delivery.in_progress()
            await delivery.ack()
            await comes_to(user.pending_mentions, {})
            task = await opened(user, "web")
            (following,) = await receive(inbox, 1)

    assert following.event.task == task


async def test_an_inbox_knows_when_its_mention_was_stored(env: BusEnv) -> None:
    """A delivery carries the sequence and the event of the log, and a time after its making."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user, "web")
        async with web.inbox() as inbox:
            (delivery,) = await receive(inbox, 1)
        (event,) = await events_of(user, task)

    assert delivery.event == event
    assert delivery.seq == delivery.recorded.seq
    assert delivery.recorded.stored_at > event.at - 10**9


@pytest.mark.parametrize("room", [1, 2, 64])
async def test_any_room_takes_everything(env: BusEnv, room: int) -> None:
    """However few mentions are held ahead, all arrive in order."""
    async with env.buses("user", "web") as (user, web):
        task = await opened(user)
        await user.threads.add(task, MAIN_THREAD, "web")
        sent = await mention(user, task, "web", count=30)
        async with web.inbox(room=room) as inbox:
            deliveries = await receive(inbox, 30)

    assert [one.seq for one in deliveries] == sent


async def test_mentions_of_strangers_reach_nobody_else(env: BusEnv) -> None:
    """An event past the bus that mentions an agent outside the thread still is its own event."""
    async with env.buses("user", "web") as (user, web), env.backend() as backend:
        task = await opened(user)
        event = make_event(
            MessagePosted(parts=(TextPart("psst"),)),
            task=task,
            thread=MAIN_THREAD,
            sender=AgentName("stranger"),
            mentions=(AgentName("web"),),
        )
        await write_raw(backend, event.subject, encode_event(event))
        async with web.inbox() as inbox:
            (delivery,) = await receive(inbox, 1)
        state = await user.tasks.state(task)

    assert delivery.event == event
    assert state.ignored == 1


async def test_the_oldest_mention_is_told(env: BusEnv) -> None:
    """Who has waited longest for an agent is told, also while it is held, until it is settled."""
    async with env.buses("user", "web") as (user, web):
        assert await user.oldest_mention("web") is None
        first, other = await opened(user, "web"), await opened(user, "web")
        await comes_to(user.pending_mentions, {"web": 2})
        waiting = await user.oldest_mention("web")
        assert waiting is not None
        assert waiting.agent == "web"
        # Of two partitions either may have come to the inbox first.
        may_be = (first, other) if env.is_spread else (first,)
        assert waiting.subject in [f"mention.web.{task}.main.ctl.user" for task in may_be]
        async with web.inbox() as inbox:
            (delivery,) = await receive(inbox, 1, ack=False)
            assert await user.oldest_mention("web") == waiting
            await delivery.ack()
            await comes_to(user.pending_mentions, {"web": 1})
            second = await user.oldest_mention("web")

    assert second is not None
    assert second.subject != waiting.subject
    assert second.stored_at >= waiting.stored_at

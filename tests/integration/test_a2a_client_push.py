"""Remote A2A agents that push: taken with their token, counted once, not depended on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import msgspec
import pytest
from a2a.server.tasks import BasePushNotificationSender
from a2a.types import a2a_pb2 as pb

from tests.support.a2a_gateway import Stepper, gateway
from tests.support.a2a_remote import REMOTE, Remote, joined
from tests.support.cli import Cli, line_with, process
from tests.support.eventually import eventually
from tests.support.running_agents import find, log_of
from threadbus.bus import Bus, connect
from threadbus.gateways.a2a import following
from threadbus.gateways.a2a.commands import Joined
from threadbus.gateways.a2a.receiving import MAX_NOTIFICATION_BYTES, Bells, receiving
from threadbus.gateways.errors import InvalidOptionError
from threadbus.gateways.web.serving import Address
from threadbus.schemas import (
    ArtifactAdded,
    InputGiven,
    InputRequested,
    MessagePosted,
    TaskId,
    TextPart,
)

PATIENCE = timedelta(seconds=30)
TOKEN = "x-a2a-notification-token"  # noqa: S105 - the name of a header
FREE = Address("127.0.0.1", 0)


@pytest.fixture
def only_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing but a notification wake whoever follows a task."""
    monkeypatch.setattr(following, "_FIRST_PAUSE_S", 1000.0)


def artifacts(events: list[object]) -> list[object]:
    """Return the parts of artifacts."""
    return [event.part for event in events if isinstance(event, ArtifactAdded)]


async def data_of(bus: Bus, task: TaskId) -> list[object]:
    """Return what the events of a task say."""
    return [event.data for event in await log_of(bus, task)]


@pytest.mark.usefixtures("only_rings")
@pytest.mark.parametrize(
    "remote",
    [
        Remote(push=True),
        Remote(push=True, streaming=False),
        Remote(push=True, streaming=False, version="0.3"),
    ],
    ids=["streams too", "only polls", "0.3"],
)
async def test_pushed_from_the_question_to_the_end(bus_url: str, remote: Remote) -> None:
    """With push everything comes by notifications: progress, a question, its answer, the end."""
    async with remote.running() as port, joined(bus_url, port, push=True) as bus:
        task = (await bus.tasks.open("ask", to=[REMOTE])).event.task
        await find(bus, task, InputRequested)
        await bus.tasks.give_input(task, "net")
        answer = await bus.waits.for_answer(task, timeout=PATIENCE)
        filed = await bus.ask("file", to=[REMOTE])
        added = artifacts(await data_of(bus, filed.task))

    assert answer.text == "heard net\u2028"
    assert added == [TextPart("one "), TextPart("two")]
    assert not any("SubscribeToTask" in body for body in remote.asked)
    assert not any("SendStreamingMessage" in body for body in remote.asked)


@pytest.mark.usefixtures("only_rings")
async def test_repeated_and_strange_notifications_change_nothing(bus_url: str) -> None:
    """Doubled, garbled, late and forged notifications: one question, one answer, once each."""
    remote = Remote(push=True, streaming=False)
    async with (
        remote.running() as port,
        joined(bus_url, port, push=True) as bus,
        httpx.AsyncClient(timeout=30) as http,
    ):
        task = (await bus.tasks.open("ask", to=[REMOTE])).event.task
        await find(bus, task, InputRequested)
        (known,) = [data for data in await data_of(bus, task) if isinstance(data, MessagePosted)]
        (config,) = await remote.pushed(known.labels["a2a.remote-task"])
        good = {TOKEN: config.token}
        bodies = (b"", b"{", b"\xff\x00", b'{"task": 1}', b'{"statusUpdate": {"final": true}}')
        sent = [(await http.post(config.url, content=body, headers=good)) for body in bodies * 8]
        ended = pb.Task(id="other", status=pb.TaskStatus(state=pb.TASK_STATE_FAILED))
        forged = await http.post(config.url, json={"task": {"id": ended.id}}, headers={TOKEN: "x"})
        looked = remote.count("GetTask")
        await bus.tasks.give_input(task, "net")
        answer = await bus.waits.for_answer(task, timeout=PATIENCE)
        asked = [data for data in await data_of(bus, task) if isinstance(data, InputRequested)]

    assert {response.status_code for response in sent} == {204}
    assert forged.status_code == 401
    assert looked < len(sent)
    assert answer.text == "heard net\u2028"
    assert len(asked) == 1


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_address_that_is_refused(bus_url: str, streaming: bool) -> None:
    """A remote agent that does not push to our address streams or is polled instead."""

    async def no(_url: str) -> bool:
        return False

    remote = Remote(push=True, streaming=streaming, takes_url=no)
    async with remote.running() as port, joined(bus_url, port, push=True) as bus:
        answer = await bus.ask("hello", to=[REMOTE])

    assert answer.text == "heard hello\u2028"
    assert any("SendStreamingMessage" in body for body in remote.asked) is streaming


async def test_notifications_that_are_lost(bus_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no notification ever arrives, the end is found by looking."""

    async def lose(*_: object, **__: object) -> None:
        return

    monkeypatch.setattr(BasePushNotificationSender, "send_notification", lose)
    remote = Remote(push=True, streaming=False)
    async with remote.running() as port, joined(bus_url, port, push=True) as bus:
        answer = await bus.ask("file", to=[REMOTE])

    assert answer.text == "heard file\u2028"


@pytest.mark.usefixtures("only_rings")
async def test_a_gateway_pushes_to_a_client(bus_url: str, tmp_path: Path) -> None:
    """Our own gateway as the remote agent: every artifact once, the configuration taken away."""
    stepper = Stepper("pusher")
    async with gateway(
        bus_url, stepper.agent, push_key=tmp_path / "k", push_allow=("127.0.0.0/8",)
    ) as (client, _):
        port = int(client.url.rpartition(":")[2])
        async with joined(bus_url, port, push=True, path="/agents/pusher") as bus:
            task = (await bus.tasks.open("go", to=[REMOTE])).event.task
            (taken,) = await find(bus, task, MessagePosted, sender=REMOTE)
            for number in range(6):
                stepper.step()
                await find(bus, task, ArtifactAdded, sender=REMOTE, count=number + 1)
            answer = await bus.waits.for_answer(task, timeout=PATIENCE)
            names = [
                event.data.name
                for event in await log_of(bus, task)
                if isinstance(event.data, ArtifactAdded)
            ]
        assert isinstance(taken.data, MessagePosted)
        theirs = {"taskId": taken.data.labels["a2a.remote-task"]}
        left = await client.result("ListTaskPushNotificationConfigs", theirs)

    assert names == [*(f"piece {number}" for number in range(6)), "answer"]
    assert answer.text == "done"
    assert left.get("configs", []) == []


@asynccontextmanager
async def client_process(cli: Cli, url: str) -> AsyncGenerator[int]:
    """Let a remote agent take part from a process of its own; give its id once it does."""
    words = ("gateway", "a2a-client", url, "--name", REMOTE, "--push-http", "127.0.0.1:0", "--json")
    env = {**cli.env, "BUS_ACK_WAIT": "2", "BUS_PRESENCE_TTL": "3"}
    async with process(*words, env=env) as running:
        yield msgspec.json.decode(await line_with(running, '"agent"'), type=Joined).pid


async def test_killed_and_started_again(cli: Cli) -> None:
    """SIGKILL between a question and the end: the outcome arrives, nothing is asked twice."""
    remote = Remote(push=True, streaming=False)
    async with AsyncExitStack() as stack:
        url = f"http://127.0.0.1:{await stack.enter_async_context(remote.running())}"
        bus = await stack.enter_async_context(connect(cli.url, name="user"))
        async with client_process(cli, url) as pid:
            task = (await bus.tasks.open("ask twice", to=[REMOTE])).event.task
            await find(bus, task, InputRequested)
            await bus.tasks.give_input(task, "net")
            # The second question, so that a count of them would be wrong after the kill.
            await find(bus, task, InputRequested, count=2)
            os.kill(pid, signal.SIGKILL)
        await bus.tasks.give_input(task, "euros")
        # Where its card is will do, too.
        card = f"{url}/.well-known/agent-card.json"
        await stack.enter_async_context(client_process(cli, card))
        answer = await bus.waits.for_answer(task, timeout=timedelta(seconds=60))
        found = await data_of(bus, task)

    assert answer.text == "heard net, euros"
    assert sum(isinstance(data, InputRequested) for data in found) == 2
    assert sum(isinstance(data, InputGiven) for data in found) == 2
    assert len(remote.executor.contexts) == 1


async def test_the_door() -> None:
    """Only a POST with the token of its address gets in; bodies are bounded and not kept."""
    async with receiving(FREE) as bells, httpx.AsyncClient(timeout=30) as http:
        with bells.hung("one") as bell, bells.hung("two") as other:
            good = {TOKEN: bell.token}
            wrong = [
                {},
                {TOKEN: ""},
                {TOKEN: other.token},
                {TOKEN: bell.token[:-1]},
                {TOKEN: bell.token + "x"},
                {TOKEN: bell.token.upper()},
                {"Authorization": bell.token},
                {"Authorization": f"Basic {bell.token}"},
            ]
            refused = [
                (await http.post(bell.url, headers=headers)).status_code for headers in wrong
            ]
            refused.append((await http.post(f"{bells.url}/a2a/notifications/x")).status_code)
            looked = (await http.get(bell.url, headers=good)).status_code
            assert not await bell.wait(0)

            taken = [
                (await http.post(bell.url, headers=headers)).status_code
                for headers in (good, {"Authorization": f"bearer {bell.token}"})
            ]
            assert await bell.wait(1)
            assert not await bell.wait(0)

            large = b"x" * (MAX_NOTIFICATION_BYTES + 1)
            over = await http.post(bell.url, headers=good, content=large)
            assert await bell.wait(1)
            assert not await other.wait(0)
        late = await http.post(bell.url, headers=good)

    assert set(refused) == {401}
    assert looked == 404
    assert taken == [204, 204]
    assert over.status_code == 413
    assert late.status_code == 204


async def test_the_door_is_not_stormed() -> None:
    """More notifications than anybody needs are refused with a reason."""
    async with receiving(FREE) as bells, httpx.AsyncClient(timeout=30) as http:
        with bells.hung("one") as bell:
            bells.limit(per_second=0.001, burst=3)
            sent = [await http.post(bell.url, headers={TOKEN: bell.token}) for _ in range(5)]

    assert [response.status_code for response in sent] == [204, 204, 204, 429, 429]


def test_another_process_has_other_tokens() -> None:
    """What one process handed out opens nothing at another."""
    with Bells().hung("one") as mine, Bells().hung("one") as theirs:
        assert mine.token != theirs.token


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("0.0.0.0", ""),  # noqa: S104 - refused
        ("127.0.0.1", "ftp://x.example"),
        ("127.0.0.1", "https://"),
        ("127.0.0.1", "https://x.example/?a=b"),
        ("127.0.0.1", "https://me@x.example"),
        ("127.0.0.1", "https://[x"),
        ("127.0.0.1", "https://x.example/" + "x" * 2000),
    ],
)
async def test_addresses_that_nobody_could_reach(address: str, url: str) -> None:
    """An address that cannot be handed out is refused at the start."""
    with pytest.raises(InvalidOptionError, match="--push-"):
        async with receiving(Address(address, 0), url):
            pass


async def test_an_address_of_its_own() -> None:
    """Behind a proxy the public address is handed out, not that which is listened on."""
    async with receiving(FREE, "https://hooks.example/in/") as bells:
        with bells.hung("one") as bell:
            assert bell.url == "https://hooks.example/in/a2a/notifications/one"


async def test_a_ring_before_anybody_listens() -> None:
    """A notification that comes before the wait is not lost, and several are one."""
    with Bells().hung("one") as bell:
        bell.ring()
        bell.ring()
        assert await bell.wait(0.001)
        waiting = asyncio.create_task(bell.wait(30))
        bell.ring()
        assert await waiting


async def test_the_same_task_is_followed_twice() -> None:
    """While an attempt ends and the next one begins, a notification reaches both."""
    async with receiving(FREE) as bells, httpx.AsyncClient(timeout=30) as http:
        with bells.hung("one") as first, bells.hung("one") as second:
            await http.post(first.url, headers={TOKEN: first.token})
            assert await first.wait(1)
            assert await second.wait(1)


async def test_gone_before_it_was_heard(bus_url: str) -> None:
    """A remote agent that is cancelled while it pushes is told, as without push."""
    remote = Remote(push=True, streaming=False)
    async with remote.running() as port, joined(bus_url, port, push=True) as bus:
        task = (await bus.tasks.open("wait", to=[REMOTE])).event.task
        async with asyncio.timeout(30):
            await remote.executor.started.wait()
            await find(bus, task, MessagePosted)
            await bus.tasks.cancel(task)
            await remote.executor.cancelled.wait()

        async def over() -> bool:
            return not (await bus.tasks.state(task)).is_open

        await eventually(over, "the task is over")

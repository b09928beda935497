"""Push notifications: durable, retried, screened, with the client's authentication."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from tests.support.a2a_agent import agent as tck
from tests.support.a2a_gateway import PATIENCE_S, Stepper, gateway, message, pieces
from tests.support.running_agents import find, log_of
from threadbus.gateways.a2a.sealing import Seal
from threadbus.gateways.errors import SealError
from threadbus.gateways.web.serving import Address, serving
from threadbus.schemas import MAIN_THREAD, MentionDeadLettered, TaskClosed, TaskId


class Hook:
    """A webhook that keeps what it gets, and refuses what a test wants refused."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.refusals = 0
        self.redirects = 0
        self.location = ""
        self.tried = 0
        self.url = ""
        self._changed = asyncio.Condition()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one notification."""
        if scope["type"] != "http":
            return
        body = (await receive())["body"]
        status = 200
        self.tried += 1
        if self.redirects:
            self.redirects -= 1
            status = 307
        elif self.refusals:
            self.refusals -= 1
            status = 503
        else:
            self.got.append(json.loads(body))
            self.headers.append({key.decode(): value.decode() for key, value in scope["headers"]})
        headers = [(b"location", self.location.encode())] if self.location else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        async with self._changed:
            self._changed.notify_all()

    async def until(self, what: str) -> None:
        """Wait until a notification's JSON holds *what*."""
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: any(what in json.dumps(one) for one in self.got))


@asynccontextmanager
async def hook() -> AsyncGenerator[Hook]:
    """Run a webhook on this machine."""
    made = Hook()
    async with serving(made, Address("127.0.0.1", 0)) as served:
        made.url = f"{served.url}/hook"
        yield made


HIDDEN = "hidden"
LOOPBACK = ("127.0.0.0/8",)


async def test_every_update_is_pushed_with_authentication(bus_url: str, tmp_path: Path) -> None:
    """Configured with the message: the task, then every update, with token and credentials."""
    async with (
        hook() as told,
        gateway(bus_url, tck, push_key=tmp_path / "k", push_allow=LOOPBACK) as (c, _),
    ):
        config = {
            "url": told.url,
            "token": "t-1",
            "authentication": {"scheme": "Bearer", "credentials": "secret"},
        }
        sent = message(
            "tck-stream-artifact-chunked-p", configuration={"taskPushNotificationConfig": config}
        )
        task = (await c.result("SendMessage", sent))["task"]
        await told.until("COMPLETED")

    assert [next(iter(one)) for one in told.got] == [
        "task",
        "statusUpdate",
        "artifactUpdate",
        "artifactUpdate",
        "artifactUpdate",
        "statusUpdate",
    ]
    assert told.got[0]["task"]["id"] == task["id"]
    assert {one["x-a2a-notification-token"] for one in told.headers} == {"t-1"}
    assert {one["authorization"] for one in told.headers} == {"Bearer secret"}


async def test_a_refusal_is_tried_again_in_order(bus_url: str, tmp_path: Path) -> None:
    """A receiver that refuses for a while gets everything in the end, in order, each once."""
    stepper = Stepper("pushes")
    async with hook() as told:
        told.refusals = 2
        async with gateway(
            bus_url, stepper.agent, push_key=tmp_path / "k", push_allow=LOOPBACK
        ) as (c, _):
            config = {"taskPushNotificationConfig": {"url": told.url}, "returnImmediately": True}
            await c.result("SendMessage", message("retried", configuration=config))
            stepper.step(6)
            await told.until("COMPLETED")

    updates = [one for one in told.got if "task" not in one]
    assert pieces(updates) == [*(f"piece {number}" for number in range(6)), "answer"]


async def test_another_gateway_goes_on(bus_url: str, tmp_path: Path) -> None:
    """A gateway that ends in the middle is replaced by another one, after what was delivered."""
    stepper = Stepper("handed-over")
    key = tmp_path / "k"
    async with hook() as told, gateway(bus_url, stepper.agent) as (client, _):
        async with gateway(bus_url, push_key=key, push_allow=LOOPBACK) as (first, _):
            sent = message("handed over", configuration={"returnImmediately": True})
            task = (await client.result("SendMessage", sent))["task"]["id"]
            await first.result(
                "CreateTaskPushNotificationConfig", {"taskId": task, "url": told.url, "id": "c"}
            )
            stepper.step(2)
            await told.until("piece 1")
        stepper.step(4)
        async with gateway(bus_url, push_key=key, push_allow=LOOPBACK):
            await told.until("COMPLETED")

    names = pieces(told.got)
    every = [*(f"piece {number}" for number in range(6)), "answer"]
    # The last one before the end may have been delivered without being on record.
    assert list(dict.fromkeys(names)) == every
    assert len(names) <= len(every) + 1


async def test_a_name_that_leads_elsewhere_later(
    bus_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public when it was configured and private when something is sent: nothing is sent there."""
    loop = asyncio.get_running_loop()
    resolve, asked = loop.getaddrinfo, 0

    async def rebind(host: str, *more: Any, **options: Any) -> Any:
        nonlocal asked
        if host != "rebinds.example":
            return await resolve(host, *more, **options)
        asked += 1
        # Screened before the message does anything, when it is configured, and then to send.
        return await resolve("8.8.8.8" if asked <= 2 else "127.0.0.1", *more, **options)

    async with hook() as told, gateway(bus_url, tck, push_key=tmp_path / "k") as (client, bus):
        monkeypatch.setattr(loop, "getaddrinfo", rebind)
        url = told.url.replace("http://127.0.0.1", "https://rebinds.example")
        config = {"taskPushNotificationConfig": {"url": url}, "returnImmediately": True}
        task = (await client.result("SendMessage", message("rebinds", configuration=config)))[
            "task"
        ]
        (holder,) = [row for row in await bus.tasks.list() if task["id"] in row.title]
        (dead,) = await find(bus, TaskId(holder.task), MentionDeadLettered)

    assert asked >= 3
    assert told.tried == 0
    assert isinstance(dead.data, MentionDeadLettered)
    assert "nothing may be sent" in dead.data.error.message
    assert "127.0.0.1" not in dead.data.error.message


async def test_pushes_for_a_client_of_0_3(bus_url: str, tmp_path: Path) -> None:
    """Who configures pushes by 0.3 gets the whole task each time, as 0.3 has it."""
    data = {"big": 2**60 + 1, "line": "a\u2028b"}
    async with (
        hook() as told,
        gateway(bus_url, tck, push_key=tmp_path / "k", push_allow=LOOPBACK) as (client, _),
    ):
        said = {
            "kind": "message",
            "messageId": "tck-artifact-text-old",
            "role": "user",
            "parts": [{"kind": "text", "text": "hello"}, {"kind": "data", "data": data}],
        }
        config = {"pushNotificationConfig": {"url": told.url, "token": HIDDEN}, "blocking": True}
        request = {"message": said, "configuration": config}
        answer = await client.http.post(
            client.url + "/rpc",
            json={"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": request},
        )
        await told.until("completed")

    task = answer.json()["result"]
    assert {one["kind"] for one in told.got} == {"task"}
    assert {one["id"] for one in told.got} == {task["id"]}
    assert told.got[-1]["status"]["state"] == "completed"
    assert [one["name"] for one in told.got[-1]["artifacts"]] == ["result", "answer"]
    assert told.got[0]["history"][0]["parts"][1]["data"] == data
    assert {one["x-a2a-notification-token"] for one in told.headers} == {HIDDEN}


async def test_a_redirect_is_not_followed(bus_url: str, tmp_path: Path) -> None:
    """A receiver that sends us on is one that refuses; nobody else hears anything."""
    async with (
        hook() as told,
        hook() as inside,
        gateway(bus_url, tck, push_key=tmp_path / "k", push_allow=LOOPBACK) as (client, _),
    ):
        told.redirects, told.location = 2, inside.url
        config = {"taskPushNotificationConfig": {"url": told.url, "token": HIDDEN}}
        await client.result("SendMessage", message("redirected", configuration=config))
        await told.until("COMPLETED")

    assert told.redirects == 0
    assert inside.tried == 0


async def test_configurations(bus_url: str, tmp_path: Path) -> None:
    """They can be listed, read, set anew and taken away; secrets are sealed in the log."""
    async with gateway(bus_url, tck, push_key=tmp_path / "k", push_allow=LOOPBACK) as (client, bus):
        task = (await client.send("tck-input-required-push"))["id"]
        name = {"taskId": task, "id": "one"}
        create = "CreateTaskPushNotificationConfig"
        made = await client.result(create, {**name, "url": "https://8.8.8.8/a", "token": HIDDEN})
        again = await client.result(create, {**name, "url": "https://8.8.8.8/b"})
        other = await client.result(create, {"taskId": task, "url": "https://8.8.8.8/c"})
        listed = await client.result("ListTaskPushNotificationConfigs", {"taskId": task})
        got = await client.result("GetTaskPushNotificationConfig", name)
        await client.result("DeleteTaskPushNotificationConfig", name)
        await client.result("DeleteTaskPushNotificationConfig", name)
        gone = await client.error("GetTaskPushNotificationConfig", name)
        tasks = await client.result("ListTasks", {})
        holders = [row.task for row in await bus.tasks.list() if row.title.startswith("push")]
        log = [str(event) for holder in holders for event in await log_of(bus, TaskId(holder))]
        hidden = [await client.error("GetTask", {"id": holder}) for holder in holders]

    assert made["token"] == HIDDEN
    assert again["url"] == got["url"] == "https://8.8.8.8/b"
    assert {config["id"] for config in listed["configs"]} == {"one", other["id"]}
    assert gone["code"] == -32001
    assert not {found["id"] for found in tasks["tasks"]} & set(holders)
    assert {error["code"] for error in hidden} == {-32001}
    assert not any(HIDDEN in line or "8.8.8.8" in line for line in log)


async def test_a_message_again_pushes_nothing_again(bus_url: str, tmp_path: Path) -> None:
    """A message that is sent again with its configuration is one task that is pushed once."""
    stepper = Stepper("pushes-once")
    options: dict[str, Any] = {"push_key": tmp_path / "k", "push_allow": LOOPBACK}
    async with hook() as told, gateway(bus_url, stepper.agent, **options) as (client, _):
        sent = message(
            "again",
            configuration={
                "returnImmediately": True,
                "taskPushNotificationConfig": {"url": told.url},
            },
        )
        task = (await client.result("SendMessage", sent))["task"]["id"]
        stepper.step(2)
        await told.until("piece 1")
        for _ in range(2):
            await client.result("SendMessage", sent)
        listed = await client.result("ListTaskPushNotificationConfigs", {"taskId": task})
        stepper.step(4)
        await told.until("COMPLETED")

    assert len(listed["configs"]) == 1
    assert pieces(told.got) == [*(f"piece {number}" for number in range(6)), "answer"]


async def test_who_is_removed_gets_no_pushes(bus_url: str, tmp_path: Path) -> None:
    """Pushes to a principal that was taken out of the task end there, and the log says why."""
    stepper = Stepper("pushes-no-more")
    options: dict[str, Any] = {"push_key": tmp_path / "k", "push_allow": LOOPBACK}
    async with hook() as told, gateway(bus_url, stepper.agent, **options) as (client, bus):
        config = {"taskPushNotificationConfig": {"url": told.url}, "returnImmediately": True}
        sent = message("no more pushes", configuration=config)
        task = (await client.result("SendMessage", sent))["task"]["id"]
        stepper.step()
        await told.until("piece 0")
        agent = bus.acting_as("pushes-no-more")
        await agent.threads.remove(TaskId(task), MAIN_THREAD, "a2a-guest")
        stepper.step(5)
        title = f"push updates of {task}"
        (holder,) = [row.task for row in await bus.tasks.list(limit=1000) if row.title == title]
        (closed,) = await find(bus, holder, TaskClosed)

    assert pieces(told.got) == ["piece 0"]
    assert "takes part in the task no more" in str(closed.data)


async def test_another_key(bus_url: str, tmp_path: Path) -> None:
    """A gateway that could open no configuration of the others does not start beside them."""
    options: dict[str, Any] = {"push_key": tmp_path / "k", "push_allow": LOOPBACK}
    async with gateway(bus_url, tck, **options) as (client, _):
        task = (await client.send("tck-input-required-key"))["id"]
        config = {"taskId": task, "url": "https://8.8.8.8/a"}
        await client.result("CreateTaskPushNotificationConfig", config)
        with pytest.raises(SealError, match="another gateway of the bus has another one"):
            async with gateway(bus_url, push_key=tmp_path / "other"):
                pass
        async with gateway(bus_url, **options):
            pass
    async with gateway(bus_url, push_key=tmp_path / "other") as (client, _):
        error = await client.error("ListTaskPushNotificationConfigs", {"taskId": task})

    assert error["code"] == -32603
    assert "other" not in str(error)


@pytest.mark.parametrize(
    "config",
    [
        {"url": "http://127.0.0.1/x"},
        {"url": "https://169.254.169.254/"},
        {"url": "https://8.8.8.8/", "token": "a\r\nX-Evil: 1"},
        {"url": "https://8.8.8.8/", "token": "x" * 5000},
        {"url": "https://8.8.8.8/", "id": "x" * 300},
    ],
)
async def test_refused_before_anything_is_done(
    bus_url: str, tmp_path: Path, config: dict[str, Any]
) -> None:
    """A configuration that cannot be is refused, and the message with it opens no task."""
    async with gateway(bus_url, tck, push_key=tmp_path / "k") as (client, bus):
        before = len(await bus.tasks.list(limit=1000))
        sent = message("refused", configuration={"taskPushNotificationConfig": config})
        error = await client.error("SendMessage", sent)
        after = len(await bus.tasks.list(limit=1000))

    assert error["code"] == -32602
    assert before == after


async def test_without_a_key_there_is_no_push(bus_url: str) -> None:
    """A gateway without push says so on its card and in its answer."""
    async with gateway(bus_url, tck) as (client, _):
        card = (await client.http.get(client.url + "/.well-known/agent-card.json")).json()
        task = (await client.send("no push"))["id"]
        params = {"taskId": task, "url": "https://8.8.8.8/"}
        error = await client.error("CreateTaskPushNotificationConfig", params)

    assert not card["capabilities"].get("pushNotifications")
    assert error["code"] == -32003


def test_a_seal_opens_only_what_it_closed(tmp_path: Path) -> None:
    """Another key, task or text opens nothing; a key that others can read is refused."""
    seal, other = Seal(tmp_path / "a"), Seal(tmp_path / "b")
    seal.load()
    other.load()
    again = Seal(tmp_path / "a")
    again.load()
    sealed = seal.seal({"token": "x"}, "task")

    assert again.open(sealed, "task") == {"token": "x"}
    for which, text, about in (
        (other, sealed, "task"),
        (seal, sealed, "t"),
        (seal, "AA", "task"),
    ):
        with pytest.raises(SealError):
            which.open(text, about)
    (tmp_path / "a").chmod(0o644)
    with pytest.raises(SealError, match="others may use it"):
        Seal(tmp_path / "a").load()

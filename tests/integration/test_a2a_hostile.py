"""What a hostile or broken peer does to the gateway: garbage, floods, cuts, and looking inside."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from structlog.testing import capture_logs

from tests.support.a2a_agent import agent as tck
from tests.support.a2a_gateway import PATIENCE_S, Client, Stepper, gateway, message, pieces
from tests.support.eventually import eventually
from threadbus.bus import AppendError
from threadbus.gateways.a2a.log import TaskLog
from threadbus.gateways.principals import add_token
from threadbus.gateways.web.leaving import UntilGone
from threadbus.gateways.web.serving import Address

SECRET = "secret=abc"  # noqa: S105 - must not be seen
JSON = {"Content-Type": "application/json", "A2A-Version": "1.0"}
FREE = Address("127.0.0.1", 0)
LONG = b"9" * 20
GARBAGE = (
    b"",
    b"null",
    b"[]",
    b"[[]]",
    b"{}",
    b"7",
    b'"x"',
    b"{",
    b"\xff\xfe\x00",
    b"\x00" * 100,
    b"[" * 50_000,
    b'{"a":' * 50_000,
    b'{"jsonrpc": "2.0"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": 5}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "__init__", "params": {}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": []}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": "x"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"parts": 5}}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"status": []}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 1e400}}',
    b'{"jsonrpc": "2.0", "id": [1], "method": "ListTasks", "params": {"status": "x"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": {}}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "\\ud800"}}',
    b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "GetTask", "params": {"id": "x"}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"historyLength": ' + LONG + b"}}",
    b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"messageId": '
    + LONG
    + b', "role": "ROLE_USER", "parts": [{"text": '
    + LONG
    + b"}]}}}",
    b'{"message": {"messageId": "m", "role": "\\udfff", "parts": [{"text": "x"}]}}',
    b'[{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}}]',
    b'{"message": {"messageId": "m", "role": 7, "parts": [{"data": {"x": ' + b"9" * 5000 + b"}}]}}",
)
PATHS = (
    "/",
    "/rpc",
    "/agents/tck/rpc",
    "/agents/%00/rpc",
    "/rest/message:send",
    "/rest/message:stream",
    "/rest/tasks/x:cancel",
    "/rest/tasks/x:subscribe",
    "/rest/tasks/x/pushNotificationConfigs",
)


@pytest.mark.parametrize("path", PATHS)
async def test_garbage_is_answered_and_forgotten(bus_url: str, path: str) -> None:
    """Each garbled body gets an error as JSON that shows nothing from inside; then it goes on."""
    async with gateway(bus_url, tck) as (client, _):
        for body in GARBAGE:
            response = await client.http.post(client.url + path, content=body, headers=JSON)
            told = response.text
            assert response.status_code < 500 or response.status_code == 501, (body[:80], told)
            assert "error" in json.loads(told), (body[:80], told)
            for word in ("Traceback", "threadbus/", "threadbus-exact", ".py", "0x7f"):
                assert word not in told, (body[:80], told)
        task = await client.send(f"after {path}")

    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("error", [RuntimeError(SECRET), AppendError("t", "m", SECRET)])
async def test_nothing_from_inside_is_told(
    bus_url: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """What goes wrong inside is an error without its words, over every binding."""

    async def fail(*_: object) -> None:
        raise error

    # Printed as for a developer, with every local, each error would take a second.
    with capture_logs() as logged:
        async with gateway(bus_url, tck, grpc=FREE) as (client, _):
            task = (await client.send("inside"))["id"]
            card = (await client.http.get(client.url + "/.well-known/agent-card.json")).json()
            (target,) = [
                one["url"]
                for one in card["supportedInterfaces"]
                if one["protocolBinding"] == "GRPC"
            ]
            monkeypatch.setattr(TaskLog, "view", fail)
            told = [
                await client.call("GetTask", {"id": task}),
                await client.call("SubscribeToTask", {"id": task}),
                await client.call("SendMessage", message("more", taskId=task)),
                await client.call("CancelTask", {"id": task}),
            ]
            old = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": task}}
            told.append((await client.http.post(client.url + "/rpc", json=old)).json())
            rest = await client.http.get(f"{client.url}/rest/tasks/{task}", headers=JSON)
            stream = await client.http.get(
                f"{client.url}/rest/tasks/{task}:subscribe", headers=JSON
            )
            file = await client.http.get(f"{client.url}/files/{task}/{'a' * 64}")
            async with grpc.aio.insecure_channel(target) as channel:
                generated: Any = a2a_pb2_grpc
                service = generated.A2AServiceStub(channel)
                with pytest.raises(grpc.aio.AioRpcError) as unary:
                    await service.GetTask(pb.GetTaskRequest(id=task), timeout=PATIENCE_S)
                with pytest.raises(grpc.aio.AioRpcError) as streamed:
                    await service.SubscribeToTask(pb.SubscribeToTaskRequest(id=task)).read()

    assert {answer["error"]["code"] for answer in told} == {-32603}
    assert rest.status_code == 500
    for text in (json.dumps(told), rest.text, stream.text, file.text):
        assert "error" in text.lower()
        assert SECRET not in text
    for caught in (unary, streamed):
        assert caught.value.code() is grpc.StatusCode.INTERNAL
        assert SECRET not in str(caught.value.details())
    # The operator gets to know.
    assert SECRET in str([line for line in logged if line["log_level"] in {"error", "warning"}])


async def test_one_message_sent_a_hundred_times(bus_url: str) -> None:
    """Doubled by two gateways at once it is one task with one answer, the same for everybody."""
    agent = tck.renamed("doubled")
    async with gateway(bus_url, agent) as (one, bus), gateway(bus_url) as (other, _):
        through = Client(other.url, other.http, "/agents/doubled/rpc")
        first = Client(one.url, one.http, "/agents/doubled/rpc")
        found = await asyncio.gather(
            *(client.send("storm") for client in (first, through) * 50),
        )
        opened = [row for row in await bus.tasks.list(limit=1000) if row.task == found[0]["id"]]

    assert {json.dumps(task, sort_keys=True) for task in found} == {
        json.dumps(found[0], sort_keys=True)
    }
    assert len(found[0]["artifacts"]) == 1
    assert len(opened) == 1


async def test_connections_that_are_cut(bus_url: str) -> None:
    """Streams cut in the middle leave nothing behind; the task goes on, and others see it all."""
    stepper = Stepper("cuts")
    async with gateway(bus_url, stepper.agent) as (client, _):
        config = {"returnImmediately": True}
        sent = message("cut", configuration=config)
        task = (await client.result("SendMessage", sent))["task"]["id"]
        before = len(asyncio.all_tasks())
        port = int(client.url.rpartition(":")[2])
        body = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task}}
        ).encode()
        head = b"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nA2A-Version: 1.0\r\n"
        head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        cut: list[asyncio.StreamWriter] = []
        for number in range(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            cut.append(writer)
            if number % 3 == 0:
                # A body that never comes whole.
                writer.write(head % 1000 + body)
                continue
            writer.write(head % len(body) + body)
            await reader.readuntil(b'"task"')
        for number, writer in enumerate(cut):
            if number % 2:
                connection = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.close()

        def is_clean() -> bool:
            # The agent has begun its turn meanwhile, which is a few; a stream each would be 20.
            return len(asyncio.all_tasks()) < before + 6

        await eventually(is_clean, "nothing is left of the streams")
        async with client.stream("SubscribeToTask", {"id": task}) as stream:
            seen = [await anext(stream)]
            stepper.step(6)
            seen += [event async for event in stream]

    assert pieces(seen) == [*(f"piece {number}" for number in range(6)), "answer"]


async def test_clients_that_give_up(bus_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the end of a task for a client that is gone; the task goes on."""
    monkeypatch.setattr(UntilGone.__init__, "__defaults__", (0.1,))
    stepper = Stepper("patient")
    async with gateway(bus_url, stepper.agent) as (client, _):
        before = len(asyncio.all_tasks())
        sent = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("given up")}
        ).encode()
        head = b"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nA2A-Version: 1.0\r\n"
        head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(sent)
        for _ in range(30):
            _, writer = await asyncio.open_connection(
                "127.0.0.1", int(client.url.rpartition(":")[2])
            )
            writer.write(head + sent)
            await writer.drain()
            writer.close()

        async def is_begun() -> bool:
            tasks = (await client.result("ListTasks", {}))["tasks"]
            return any(task["status"]["state"] == "TASK_STATE_WORKING" for task in tasks)

        await eventually(is_begun, "the message was delivered all the same")

        def is_clean() -> bool:
            # The agent has begun its turn, which is a few; a wait each would be 30 and more.
            return len(asyncio.all_tasks()) < before + 8

        await eventually(is_clean, "nobody waits for the clients that left")
        stepper.step(6)
        task = await client.send("given up")

    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_hundred_times_the_rate(bus_url: str, tmp_path: Path) -> None:
    """Who sends far more than allowed is refused with a time to wait; others notice nothing."""
    tokens = tmp_path / "tokens.json"
    as_ada, as_bob = (
        {**JSON, "Authorization": f"Bearer {add_token(tokens, name)}"} for name in ("ada", "bob")
    )
    options: dict[str, Any] = {"per_second": 2.0, "burst": 5}
    async with (
        gateway(bus_url, tck, tokens=tokens, **options) as (client, _),
        httpx.AsyncClient(timeout=PATIENCE_S) as http,
    ):
        url = f"{client.url}/rest/tasks"
        flood = await asyncio.gather(*(http.get(url, headers=as_ada) for _ in range(200)))
        calm = [await http.get(url, headers=as_bob) for _ in range(3)]
        refused = [response for response in flood if response.status_code == 429]

        async def is_let_in() -> bool:
            return (await http.get(url, headers=as_ada)).status_code == 200

        await eventually(is_let_in, "after a while there is room again")

    assert {response.status_code for response in flood} == {200, 429}
    assert len(refused) > 150
    assert all(int(response.headers["retry-after"]) >= 1 for response in refused)
    assert "2 requests a second" in refused[0].json()["error"]
    assert {response.status_code for response in calm} == {200}

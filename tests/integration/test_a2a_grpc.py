"""The A2A gateway over gRPC: the same tasks, behind the same checks."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
from a2a.client import ClientConfig, create_client
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from google.protobuf import timestamp_pb2

from tests.support.a2a_agent import agent as tck
from tests.support.a2a_gateway import PATIENCE_S, Client, gateway, message
from threadbus.agents import Agent, Mention, Reply
from threadbus.gateways.errors import InvalidOptionError, ListenError, MissingExtraError
from threadbus.gateways.principals import add_token
from threadbus.gateways.web.serving import Address
from threadbus.schemas import DataPart

FREE = Address("127.0.0.1", 0)
LATE = pb.ListTasksRequest(status_timestamp_after=timestamp_pb2.Timestamp(seconds=2**62))
numbers = Agent("numbers")


@numbers.on_mention
async def _number(mention: Mention) -> Reply:
    return DataPart({"small": 7, "large": 2**60 + 1})


async def interface(client: Client, path: str = "") -> dict[str, Any]:
    """Return where a card says that gRPC is."""
    card = (await client.http.get(f"{client.url}{path}/.well-known/agent-card.json")).json()
    (found,) = [one for one in card["supportedInterfaces"] if one["protocolBinding"] == "GRPC"]
    return dict(found)


@asynccontextmanager
async def stub(client: Client) -> AsyncGenerator[Any]:
    """Open a channel to the gateway of *client*."""
    async with grpc.aio.insecure_channel((await interface(client))["url"]) as channel:
        generated: Any = a2a_pb2_grpc
        yield generated.A2AServiceStub(channel)


def asking(message_id: str, text: str = "hello", **more: Any) -> pb.SendMessageRequest:
    """Return the request that sends a message."""
    tenant = more.pop("tenant", "")
    config = pb.SendMessageConfiguration(return_immediately=more.pop("at_once", False))
    said = pb.Message(message_id=message_id, role=pb.ROLE_USER, parts=[pb.Part(text=text)], **more)
    return pb.SendMessageRequest(message=said, configuration=config, tenant=tenant)


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    """Return how a call fails."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), str(caught.value.details())


def reasons(error: grpc.aio.AioRpcError) -> bytes:
    """Return the details of an error as they come."""
    found: Sequence[Any] = tuple(error.trailing_metadata())
    return b"".join(value for _, value in found if isinstance(value, bytes))


async def test_a_message_over_grpc_is_the_same_task(bus_url: str) -> None:
    """What is asked over gRPC is found over JSON-RPC, with the same answer."""
    async with gateway(bus_url, tck, grpc=FREE) as (client, _), stub(client) as service:
        answer = await service.SendMessage(asking("one"), timeout=PATIENCE_S)
        again = await service.SendMessage(asking("one"), timeout=PATIENCE_S)
        seen = await client.result("GetTask", {"id": answer.task.id})
        listed = await service.ListTasks(pb.ListTasksRequest(), timeout=PATIENCE_S)

    assert answer.task.status.state == pb.TASK_STATE_COMPLETED
    assert answer.task.artifacts[0].parts[0].text == "Hello from TCK"
    assert again.task == answer.task
    assert seen["artifacts"][0]["artifactId"] == answer.task.artifacts[0].artifact_id
    assert [task.id for task in listed.tasks] == [answer.task.id]


async def test_the_tenant_says_which_card_it_is(bus_url: str) -> None:
    """An agent's card names its tenant; small integers are numbers, large ones keep each digit."""
    async with gateway(bus_url, tck, numbers, grpc=FREE) as (client, _), stub(client) as service:
        found = await interface(client, "/agents/numbers")
        asked = asking("n", tenant=found["tenant"])
        answer = await service.SendMessage(asked, timeout=PATIENCE_S)
        nobody = await refused(service.SendMessage(asking("m", tenant="x"), timeout=PATIENCE_S))

    fields = answer.task.artifacts[0].parts[0].data.struct_value.fields
    assert fields["small"].number_value == 7
    assert fields["large"].string_value == str(2**60 + 1)
    assert nobody[0] is grpc.StatusCode.UNIMPLEMENTED


async def test_a_stream_over_grpc_is_in_order(bus_url: str) -> None:
    """The task, work, the chunks of an artifact and the end come one after the other."""
    async with gateway(bus_url, tck, grpc=FREE) as (client, _), stub(client) as service:
        request = asking("tck-stream-artifact-chunked-g")
        stream = service.SendStreamingMessage(request, timeout=PATIENCE_S)
        events = [event async for event in stream]

    kinds = [event.WhichOneof("payload") for event in events]
    states = [
        event.status_update.status.state for event in events if event.HasField("status_update")
    ]
    assert kinds[0] == "task"
    assert kinds.count("artifact_update") == 3
    assert states == [pb.TASK_STATE_WORKING, pb.TASK_STATE_COMPLETED]


async def test_cancel_over_grpc_ends_the_stream_of_another(bus_url: str) -> None:
    """A subscriber sees the cancel of another call as its last update; a second one is refused."""
    async with gateway(bus_url, tck, grpc=FREE) as (client, _), stub(client) as service:
        sent = asking("wait-g", at_once=True)
        task = (await service.SendMessage(sent, timeout=PATIENCE_S)).task.id
        stream = service.SubscribeToTask(pb.SubscribeToTaskRequest(id=task), timeout=PATIENCE_S)
        events = aiter(stream)
        first = await anext(events)
        await service.CancelTask(pb.CancelTaskRequest(id=task), timeout=PATIENCE_S)
        rest = [event async for event in events]
        again = await refused(service.CancelTask(pb.CancelTaskRequest(id=task)))
        missing = await refused(service.GetTask(pb.GetTaskRequest(id="0" * 32)))

    assert first.task.id == task
    assert rest[-1].status_update.status.state == pb.TASK_STATE_CANCELED
    assert again[0] is grpc.StatusCode.FAILED_PRECONDITION
    assert missing[0] is grpc.StatusCode.NOT_FOUND


async def test_grpc_lets_in_who_has_a_token(bus_url: str, tmp_path: Path) -> None:
    """Without a token, or with a wrong one, nothing is done; others see nothing."""
    tokens = tmp_path / "tokens.json"
    ada, bob = add_token(tokens, "ada"), add_token(tokens, "bob")
    async with (
        gateway(bus_url, tck, tokens=tokens, grpc=FREE) as (client, _),
        stub(client) as service,
    ):
        as_ada = [("authorization", f"Bearer {ada}")]
        sent = await service.SendMessage(asking("p"), metadata=as_ada, timeout=PATIENCE_S)
        get = pb.GetTaskRequest(id=sent.task.id)
        nobody = await refused(service.SendMessage(asking("q")))
        wrong = await refused(service.GetTask(get, metadata=[("x-api-key", "x" * 40)]))
        stream = service.SendStreamingMessage(asking("r"))
        streamed = await refused(stream.read())
        others = await refused(service.GetTask(get, metadata=[("x-api-key", bob)]))
        own = await service.GetTask(get, metadata=[("x-api-key", ada)], timeout=PATIENCE_S)
        card = await service.GetExtendedAgentCard(
            pb.GetExtendedAgentCardRequest(), metadata=as_ada, timeout=PATIENCE_S
        )
        listed = await service.ListTasks(pb.ListTasksRequest(), metadata=as_ada)

    assert {nobody[0], wrong[0], streamed[0]} == {grpc.StatusCode.UNAUTHENTICATED}
    assert others[0] is grpc.StatusCode.NOT_FOUND
    assert own.id == sent.task.id
    assert card.name == "threadbus"
    assert [task.id for task in listed.tasks] == [sent.task.id]


async def test_grpc_refuses_what_is_out_of_bounds(bus_url: str) -> None:
    """Another version, a request that is too large, and too many of them are refused."""
    options: dict[str, Any] = {"max_body_bytes": 10_000, "per_second": 0.001, "burst": 3}
    async with gateway(bus_url, tck, grpc=FREE, **options) as (client, _), stub(client) as service:
        listing = pb.ListTasksRequest()
        with pytest.raises(grpc.aio.AioRpcError) as version:
            await service.ListTasks(listing, metadata=[("a2a-version", "99.0")])
        large = await refused(service.SendMessage(asking("large", "x" * 20_000)))
        await service.ListTasks(listing, metadata=[("a2a-version", "1.0")], timeout=PATIENCE_S)
        await service.ListTasks(listing, timeout=PATIENCE_S)
        often = await refused(service.ListTasks(listing))

    assert version.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert b"VERSION_NOT_SUPPORTED" in reasons(version.value)
    assert large[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert often == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "more than 0.001 requests a second (at once 3); try again later",
    )


@pytest.mark.parametrize(
    ("method", "body", "said"),
    [
        ("GetTask", b"\xff" * 100, "the request cannot be read"),
        ("GetTask", b"\x12\x02\xff\xfe", "the request cannot be read"),
        ("SubscribeToTask", b"\x0a\x80\x01" * 500, "the request cannot be read"),
        ("ListTasks", pb.ListTasksRequest(status=77).SerializeToString(), "status is 77"),  # type: ignore[arg-type]
        ("ListTasks", pb.ListTasksRequest(page_size=-5).SerializeToString(), "pageSize is -5"),
        ("ListTasks", LATE.SerializeToString(), "statusTimestampAfter is no time"),
    ],
)
async def test_garbage_over_grpc(
    bus_url: str, tmp_path: Path, method: str, body: bytes, said: str
) -> None:
    """What cannot be read or cannot be is refused by its name, and to nobody before its token."""
    token = add_token(tmp_path / "tokens.json", "ada")
    as_ada = [("authorization", f"Bearer {token}")]
    tokens = tmp_path / "tokens.json"
    async with (
        gateway(bus_url, tck, tokens=tokens, grpc=FREE) as (client, _),
        grpc.aio.insecure_channel((await interface(client))["url"]) as channel,
    ):
        untyped: Any = channel
        call = untyped.unary_unary(f"/lf.a2a.v1.A2AService/{method}")
        code, details = await refused(call(body, metadata=as_ada, timeout=PATIENCE_S))
        nobody, _ = await refused(call(body, timeout=PATIENCE_S))

    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert said in details
    assert nobody is grpc.StatusCode.UNAUTHENTICATED


async def test_the_address_of_grpc_is_checked(bus_url: str) -> None:
    """One that is taken is told, and one that others reach needs tokens."""
    async with gateway(bus_url, tck, grpc=FREE) as (client, _):
        _, _, port = (await interface(client))["url"].rpartition(":")
        with pytest.raises(ListenError):
            async with gateway(bus_url, grpc=Address("127.0.0.1", int(port))):
                pass
    with pytest.raises(InvalidOptionError, match="--grpc"):
        async with gateway(bus_url, grpc=Address("0.0.0.0", 0)):  # noqa: S104 - refused
            pass


async def test_grpc_that_is_not_installed_is_told(
    bus_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the extra; a gateway without gRPC does not look for it."""
    monkeypatch.setitem(sys.modules, "grpc", None)
    monkeypatch.delitem(sys.modules, "threadbus.gateways.a2a.rpc", raising=False)
    monkeypatch.delattr("threadbus.gateways.a2a.rpc", raising=False)
    with pytest.raises(MissingExtraError, match=re.escape("threadbus[grpc]")):
        async with gateway(bus_url, grpc=FREE):
            pass
    async with gateway(bus_url) as (client, _):
        assert (await client.http.get(f"{client.url}/agents")).status_code == 200


async def test_the_client_of_the_sdk_comes_by_grpc(bus_url: str) -> None:
    """A client that prefers gRPC finds it on the card of an agent, and asks that agent."""
    async with (
        gateway(bus_url, tck, numbers, grpc=FREE) as (client, _),
        httpx.AsyncClient(timeout=PATIENCE_S) as http,
        asyncio.timeout(PATIENCE_S),
    ):
        config = ClientConfig(
            httpx_client=http,
            supported_protocol_bindings=["GRPC"],
            grpc_channel_factory=grpc.aio.insecure_channel,
            streaming=False,
        )
        by_grpc = await create_client(f"{client.url}/agents/numbers", config)
        answers = [event async for event in by_grpc.send_message(asking("sdk"))]
        await by_grpc.close()

    assert answers[-1].task.artifacts[0].parts[0].HasField("data")


async def test_an_answer_may_be_a_plain_message(bus_url: str) -> None:
    """Who waited gets it in place of the task, over each binding, and again (DM-MSG-001)."""
    async with gateway(bus_url, tck, grpc=FREE) as (client, _), stub(client) as service:
        sent = message("tck-message-response-1", contextId="talk")
        said = (await client.result("SendMessage", sent))["message"]
        again = (await client.result("SendMessage", sent))["message"]
        over_grpc = await service.SendMessage(asking("tck-message-response-2"), timeout=PATIENCE_S)
        task = await client.result("GetTask", {"id": said["metadata"]["threadbus.task"]})

    assert said["parts"] == [{"text": "Direct message response", "mediaType": "text/plain"}]
    assert (said["role"], said["contextId"]) == ("ROLE_AGENT", "talk")
    assert "taskId" not in said
    assert again == said
    assert over_grpc.message.parts[0].text == "Direct message response"
    # It is a super-task all the same.
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert json.dumps(task["artifacts"][0]["parts"]) == json.dumps(said["parts"])

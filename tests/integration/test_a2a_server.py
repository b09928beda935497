"""The A2A gateway: messages become super-tasks, the log is the task store.

Where a test shows a requirement of the a2a-tck, its docstring names the requirement's id.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils.signing import SignatureVerificationError, create_signature_verifier
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf import json_format

from tests.support.a2a import Client, gateway, message, until_state
from tests.support.a2a_agent import agent as tck
from tests.support.eventually import eventually
from tests.support.running_agents import kinds, log_of
from threadbus.gateways.a2a.signing import card_signer
from threadbus.gateways.errors import InvalidOptionError
from threadbus.gateways.principals import add_token
from threadbus.schemas import MAIN_THREAD, AgentCard, DataPart, TaskId, TaskStatus


def states(events: list[dict[str, Any]]) -> list[str]:
    """Return the states that a stream went through."""
    found = [event.get("task", event.get("statusUpdate")) for event in events]
    return [event["status"]["state"].removeprefix("TASK_STATE_") for event in found if event]


async def test_a_message_is_a_task_with_an_answer(bus_url: str) -> None:
    """A blocking message gives the finished task (CORE-SEND-001, CORE-GET-001, DM-TASK-001)."""
    async with gateway(bus_url, tck) as (client, bus):
        task = await client.send("one")
        again = await client.result("GetTask", {"id": task["id"]})
        state = await bus.tasks.state(TaskId(task["id"]))

    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"][0]["text"] == "Hello from TCK"
    assert [line["messageId"] for line in task["history"]] == ["one"]
    assert again == task
    assert state.status is TaskStatus.COMPLETED


async def test_a_repeated_message_is_one_task(bus_url: str) -> None:
    """The same messageId of the same principal is found again, by any gateway."""
    async with gateway(bus_url, tck) as (client, bus), gateway(bus_url) as (other, _):
        found = await asyncio.gather(*(client.send("same") for _ in range(4)))
        found.append(await other.send("same"))
        opened = [row for row in await bus.tasks.list() if row.task == found[0]["id"]]

    assert len({task["id"] for task in found}) == 1
    assert len(opened) == 1


async def test_a_stream_gives_every_update_in_order(bus_url: str) -> None:
    """A stream: the task, work, chunks, the end (CORE-STREAM-001, STREAM-ORDER-001)."""
    async with gateway(bus_url, tck) as (client, _):
        params = message("tck-stream-artifact-chunked-s")
        async with client.stream("SendStreamingMessage", params) as stream:
            events = [event async for event in stream]

    chunks = [event["artifactUpdate"] for event in events if "artifactUpdate" in event]
    assert states(events) == ["SUBMITTED", "WORKING", "COMPLETED"]
    assert [chunk.get("append", False) for chunk in chunks] == [False, True, False]
    assert [chunk.get("lastChunk", False) for chunk in chunks] == [False, True, True]
    assert chunks[0]["artifact"]["artifactId"] == chunks[1]["artifact"]["artifactId"]
    places = [tuple(map(int, event["id"].split("."))) for event in events[1:]]
    assert places == sorted(set(places))


@pytest.mark.parametrize(("kind", "state"), [("input", "INPUT"), ("auth", "AUTH")])
async def test_a_question_in_the_middle(bus_url: str, kind: str, state: str) -> None:
    """A question interrupts, an answer by task id stays in its context (CORE-MULTI-005)."""
    async with gateway(bus_url, tck) as (client, _):
        asked = await client.send(f"tck-{kind}-required-q", contextId=f"chat-{kind}")
        done = await client.send(f"answer-{kind}", "blue", taskId=asked["id"])

    assert asked["status"]["state"] == f"TASK_STATE_{state}_REQUIRED"
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (done["id"], done["contextId"]) == (asked["id"], f"chat-{kind}")
    assert "blue" in done["artifacts"][0]["parts"][0]["text"]
    assert [line["role"] for line in done["history"]] == ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"]


async def test_a_rejected_task(bus_url: str) -> None:
    """An agent that does not take a task on rejects it, with its reason (DM-STATUS-001)."""
    async with gateway(bus_url, tck) as (client, _):
        task = await client.send("tck-reject-task-r")

    assert task["status"]["state"] == "TASK_STATE_REJECTED"
    assert task["status"]["message"]["parts"][0]["text"] == "rejected"


async def test_a_failure_leaks_nothing(bus_url: str) -> None:
    """What an agent's exception says stays inside."""
    agent = tck.renamed("fails")
    async with gateway(bus_url, agent) as (client, bus):
        sent = message("fail-1", configuration={"returnImmediately": True})
        task = (await client.result("SendMessage", sent))["task"]
        await bus.acting_as("fails").tasks.close(
            TaskId(task["id"]),
            TaskStatus.FAILED,
            summary="fails gave up: RuntimeError: secret=abc",
        )
        seen = await client.call("GetTask", {"id": task["id"]})

    assert seen["result"]["status"]["state"] == "TASK_STATE_FAILED"
    assert "secret" not in json.dumps(seen)


async def test_cancel_reaches_the_agent(bus_url: str) -> None:
    """A cancelled task is over for its agent; a second cancel is refused (CORE-CANCEL-*)."""
    async with gateway(bus_url, tck) as (client, bus):
        sent = message("wait-c", configuration={"returnImmediately": True})
        task = (await client.result("SendMessage", sent))["task"]["id"]
        await until_state(client, task, "TASK_STATE_WORKING")
        cancelled = await client.result("CancelTask", {"id": task})
        again = await client.error("CancelTask", {"id": task})
        follow_up = await client.error("SendMessage", message("late", taskId=task))
        state = await bus.tasks.state(TaskId(task))

    assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"
    assert again["code"] == -32002
    assert follow_up["code"] == -32004
    assert state.status is TaskStatus.CANCELLED


async def test_others_see_nothing(bus_url: str, tmp_path: Path) -> None:
    """Tasks and contexts of another principal do not exist, for every operation."""
    tokens = tmp_path / "tokens.json"
    ada, bob = add_token(tokens, "ada"), add_token(tokens, "bob")
    as_ada, as_bob = ({"Authorization": f"Bearer {token}"} for token in (ada, bob))
    async with gateway(bus_url, tck, tokens=tokens) as (client, _):
        sent = await client.result("SendMessage", message("p", contextId="mine"), headers=as_ada)
        task = sent["task"]["id"]
        errors = [
            await client.error(method, params, headers=as_bob)
            for method, params in (
                ("GetTask", {"id": task}),
                ("CancelTask", {"id": task}),
                ("SubscribeToTask", {"id": task}),
                ("SendMessage", message("b", taskId=task)),
            )
        ]
        missing = await client.error("GetTask", {"id": "0" * 31 + "1"}, headers=as_bob)
        listed = await client.result("ListTasks", {"contextId": "mine"}, headers=as_bob)
        own = await client.result("ListTasks", {"contextId": "mine"}, headers=as_ada)
        same = await client.result("SendMessage", message("p", contextId="mine"), headers=as_bob)
        nobody = await client.http.post(client.url + "/rpc", json={})
        wrong = await client.http.post(
            client.url + "/rpc", json={}, headers={"Authorization": "Bearer " + "x" * 40}
        )
        extended = await client.result("GetExtendedAgentCard", {}, headers=as_ada)
        key = await client.result("GetTask", {"id": task}, headers={"X-API-Key": ada})

    assert {error["code"] for error in errors} == {-32001}
    assert {error["message"] for error in errors} == {missing["message"]}
    assert listed["tasks"] == []
    assert [found["id"] for found in own["tasks"]] == [task]
    assert same["task"]["id"] != task
    assert (nobody.status_code, wrong.status_code) == (401, 401)
    assert extended["name"] == "threadbus"
    assert key["id"] == task


async def test_lists_are_filtered_and_paged(bus_url: str) -> None:
    """Lists: by context and status, newest change first, in pages (CORE-LIST-*)."""
    async with gateway(bus_url, tck) as (client, _):
        ids = [
            (await client.send(f"list-{number}", contextId="listed"))["id"] for number in range(5)
        ]
        parked = await client.send("tck-input-required-l", contextId="listed")
        everything = await client.result("ListTasks", {"contextId": "listed"})
        pages: list[str] = []
        token = ""
        while True:
            asked = {"contextId": "listed", "pageSize": 2, "pageToken": token}
            page = await client.result("ListTasks", asked)
            pages += [task["id"] for task in page["tasks"]]
            token = page["nextPageToken"]
            if not token:
                break
        waiting = await client.result(
            "ListTasks", {"contextId": "listed", "status": "TASK_STATE_INPUT_REQUIRED"}
        )
        rest = await client.http.get(
            client.url + "/rest/tasks?contextId=listed&status=TASK_STATE_COMPLETED&pageSize=3",
            headers={"A2A-Version": "1.0"},
        )
        errors = [
            await client.error("ListTasks", params)
            for params in (
                {"status": "NO_SUCH_STATE"},
                {"status": 99},
                {"pageSize": 0},
                {"pageSize": 101},
                {"pageToken": "nonsense"},
                {"historyLength": -1},
            )
        ]
        refused = await client.http.get(
            client.url + "/rest/tasks?status=nonsense", headers={"A2A-Version": "1.0"}
        )

    assert [task["id"] for task in everything["tasks"]] == [parked["id"], *reversed(ids)]
    assert everything["totalSize"] == 6
    assert "artifacts" not in everything["tasks"][1]
    assert pages == [task["id"] for task in everything["tasks"]]
    assert [task["id"] for task in waiting["tasks"]] == [parked["id"]]
    assert len(rest.json()["tasks"]) == 3
    assert {error["code"] for error in errors} == {-32602}
    assert refused.status_code == 400


async def test_a_context_goes_on(bus_url: str) -> None:
    """Each further task of a context names the one before it as its cause."""
    async with gateway(bus_url, tck) as (client, bus):
        first = await client.send("c-1", contextId="long talk")
        second = await client.send("c-2", contextId="long talk")
        events = [await log_of(bus, TaskId(task["id"])) for task in (first, second)]

    assert second["contextId"] == "long talk"
    assert events[1][0].cause == events[0][0].id


async def test_numbers_and_separators_arrive_unchanged(bus_url: str) -> None:
    """Integers of any size and the line ends of Unicode go in and out as they are."""
    data = {
        "big": 2**70 + 1,
        "neg": -(2**63),
        "one": 1,
        "half": 0.5,
        "text": "a\u2028b\u2029c\u0085",
    }
    async with gateway(bus_url, tck) as (client, bus):
        params = message("numbers", parts=[{"data": data}, {"text": "x\u2028y"}])
        async with client.stream("SendStreamingMessage", params) as stream:
            first = await anext(stream)
        raw = await client.http.post(
            client.url + "/rpc",
            json={
                "jsonrpc": "2.0",
                "id": 2**60 + 1,
                "method": "GetTask",
                "params": {"id": first["task"]["id"]},
            },
            headers={"A2A-Version": "1.0"},
        )
        state = await bus.tasks.state(TaskId(first["task"]["id"]))

    parts = raw.json()["result"]["history"][0]["parts"]
    assert parts[0]["data"] == data
    assert isinstance(parts[0]["data"]["one"], int)
    assert parts[1]["text"] == "x\u2028y"
    assert raw.json()["id"] == 2**60 + 1
    assert first["task"]["history"][0]["parts"][0]["data"] == data
    assert state.question[0] == DataPart(data)
    assert not {"\u2028", "\u2029", "\u0085"} & set(raw.text)


async def test_files_by_bytes_and_by_reference(bus_url: str) -> None:
    """A small file comes back in the task, a large one by an address for its owner only."""
    large = "QUJD" * (600 * 1024)
    parts = [
        {"raw": "aGVsbG8=", "filename": "a.txt", "mediaType": "text/plain"},
        {"raw": large, "filename": "b.bin", "mediaType": "application/octet-stream"},
        {"url": "https://example.com/c", "filename": "c", "mediaType": "text/csv"},
    ]
    async with gateway(bus_url, tck) as (client, _):
        task = (await client.result("SendMessage", message("files", parts=parts)))["task"]
        seen = task["history"][0]["parts"]
        content = await client.http.get(seen[1]["url"])
        missing = await client.http.get(seen[1]["url"][:-1] + "0")

    assert seen[0] == parts[0]
    assert seen[2] == parts[2]
    assert content.content == b"ABC" * (600 * 1024)
    assert "attachment" in content.headers["content-disposition"]
    assert missing.status_code == 404


@pytest.mark.parametrize(
    ("params", "code"),
    [
        (message(""), -32602),
        (message("x" * 300), -32602),
        (message("m", parts=[]), -32602),
        (message("m", parts=[{}]), -32602),
        (message("m", parts=[{"text": "a"}] * 65), -32602),
        (message("m", taskId="0" * 31 + "1"), -32001),
        (message("m", taskId="no id at all"), -32001),
        (message("m", parts=[{"raw": "AA==", "mediaType": "video/x-odd"}]), -32005),
    ],
)
async def test_what_cannot_be_taken_is_refused(
    bus_url: str, params: dict[str, Any], code: int
) -> None:
    """Bad messages get the protocol's error and reach nobody (CORE-SEND-003, JSONRPC-ERR-*)."""
    async with gateway(bus_url, tck) as (client, _):
        error = await client.error("SendMessage", params)

    assert error["code"] == code


async def test_the_wire_refuses(bus_url: str) -> None:
    """Other content types, versions, hosts and sizes are refused (JSONRPC-SSE-002, VER-*)."""
    async with gateway(bus_url, tck, max_body_bytes=2000) as (client, _):
        text = await client.http.post(
            client.url + "/rpc", content="{}", headers={"Content-Type": "text/plain"}
        )
        version = await client.error("GetTask", {"id": "x"}, headers={"A2A-Version": "99.0"})
        host = await client.http.get(client.url + "/agents", headers={"Host": "evil.example"})
        large = await client.http.post(client.url + "/rpc", json={"x": "y" * 3000})
        broken = await client.http.post(
            client.url + "/rpc", content="{", headers={"Content-Type": "application/json"}
        )
        slash = await client.http.post(client.url + "/rpc/", json={"jsonrpc": "2.0", "id": 1})

    assert text.json()["error"]["code"] == -32005
    assert version["code"] == -32009
    assert host.status_code == 421
    assert large.status_code == 413
    assert broken.json()["error"]["code"] == -32700
    assert slash.status_code == 200


async def test_cards(bus_url: str) -> None:
    """Each agent and the bus have a card with ETag and Last-Modified (CARD-CACHE-001 to -003)."""
    async with gateway(bus_url, tck) as (client, _):
        whole = await client.http.get(client.url + "/.well-known/agent-card.json")
        catalogue = (await client.http.get(client.url + "/agents")).json()
        entry = next(entry for entry in catalogue["agents"] if entry["name"] == "tck")
        one = await client.http.get(entry["card"])
        same = await client.http.get(entry["card"], headers={"If-None-Match": one.headers["etag"]})
        missing = await client.http.get(client.url + "/agents/nobody/.well-known/agent-card.json")
        through = Client(client.url, client.http, "/agents/tck/rpc")
        task = await through.send("through its card")

    assert whole.json()["name"] == "threadbus"
    assert "tck" in {skill["id"] for skill in whole.json()["skills"]}
    assert one.json()["supportedInterfaces"][0]["url"] == f"{client.url}/agents/tck/rpc"
    assert one.headers["last-modified"].endswith("GMT")
    assert (same.status_code, same.content) == (304, b"")
    assert missing.status_code == 404
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_an_agent_that_is_away_is_asked_all_the_same(bus_url: str) -> None:
    """A message to an agent that does not run waits for it; the log has a receipt."""
    async with gateway(bus_url) as (client, bus):
        await bus.registry.register(AgentCard(name="away"), holder="test")
        through = Client(client.url, client.http, "/agents/away/rpc")
        sent = message("w", configuration={"returnImmediately": True})
        task = (await through.result("SendMessage", sent))["task"]

        async def is_receipted() -> bool:
            types = kinds(await log_of(bus, TaskId(task["id"])))
            return types == ["task.opened", "mention.stored"]

        await eventually(is_receipted, "the receipt")

    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"


async def test_a_client_of_version_0_3(bus_url: str) -> None:
    """Version 0.3 is served at the same address, and finds how on the card."""
    async with gateway(bus_url, tck) as (client, _):
        card = (await client.http.get(client.url + "/.well-known/agent-card.json")).json()
        answer = await client.http.post(
            card["url"],
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": "message/send",
                "params": {
                    "message": {
                        "kind": "message",
                        "messageId": "old",
                        "role": "user",
                        "parts": [{"kind": "text", "text": "hello"}],
                    }
                },
            },
        )

    assert card["protocolVersion"].startswith("0.3")
    assert answer.json()["result"]["status"]["state"] == "completed"


async def test_a_removed_participant_sees_it_no_more(bus_url: str) -> None:
    """Membership is the bus's: who is taken out of the main thread has no task any more."""
    async with gateway(bus_url, tck) as (client, bus):
        asked = await client.send("tck-input-required-m")
        agent = bus.acting_as("tck")
        await agent.threads.remove(TaskId(asked["id"]), MAIN_THREAD, "a2a-guest")
        error = await client.error("GetTask", {"id": asked["id"]})
        listed = await client.result("ListTasks", {})

    assert error["code"] == -32001
    assert asked["id"] not in {task["id"] for task in listed["tasks"]}


async def test_signed_cards(bus_url: str, tmp_path: Path) -> None:
    """A card is signed with the operator's key, and one that was changed is told from it."""
    key = ec.generate_private_key(ec.SECP256R1())
    path = tmp_path / "key.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    verify = create_signature_verifier(lambda _kid, _jku: public, ["ES256"])
    async with gateway(bus_url, tck, sign_key=path, old_clients=False) as (client, _):
        served = await client.http.get(client.url + "/agents/tck/.well-known/agent-card.json")
        again = await client.http.get(
            client.url + "/agents/tck/.well-known/agent-card.json",
            headers={"If-None-Match": served.headers["etag"]},
        )
    card = json_format.ParseDict(served.json(), pb.AgentCard())
    changed = json_format.ParseDict({**served.json(), "name": "other"}, pb.AgentCard())

    verify(card)
    assert again.status_code == 304
    with pytest.raises(SignatureVerificationError):
        verify(changed)


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nAAAA"])
def test_what_is_no_key_signs_nothing(tmp_path: Path, content: bytes) -> None:
    """A file without a usable key is refused at the start."""
    path = tmp_path / "key.pem"
    path.write_bytes(content)

    with pytest.raises(InvalidOptionError, match="--sign-key"):
        card_signer(path)

"""The A2A gateway: messages become super-tasks, the log is the task store.

Where a test shows a requirement of the a2a-tck, its docstring names the requirement's id.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from typing import Any

import pytest

from tests.support.a2a_agent import agent as tck
from tests.support.a2a_gateway import Client, gateway, message, until_state
from tests.support.running_agents import find, log_of
from threadbus.schemas import AgentCard, DataPart, MentionStored, TaskId, TaskStatus


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


async def test_lists_by_time_and_size(bus_url: str) -> None:
    """Lists: after a time, with artifacts and history where wanted, steady while tasks come."""
    async with gateway(bus_url, tck) as (client, _):
        ids = [(await client.send(f"t-{number}", contextId="timed"))["id"] for number in range(4)]
        context = {"contextId": "timed"}
        everything = (await client.result("ListTasks", context))["tasks"]
        since = everything[2]["status"]["timestamp"]
        later = await client.result("ListTasks", {**context, "statusTimestampAfter": since})
        full = await client.result(
            "ListTasks", {**context, "includeArtifacts": True, "historyLength": 0}
        )
        first = await client.result("ListTasks", {**context, "pageSize": 2})
        await client.send("t-more", contextId="timed")
        rest = {**context, "pageSize": 2, "pageToken": first["nextPageToken"]}
        second = await client.result("ListTasks", rest)
        none = await client.result("ListTasks", {"contextId": "nobody's"})
        through = Client(client.url, client.http, "/agents/tck/rpc")
        of_card = await through.result("ListTasks", context)
        bad_time = await client.error("ListTasks", {"statusTimestampAfter": "yesterday"})

    assert [task["id"] for task in everything] == list(reversed(ids))
    assert {task["id"] for task in later["tasks"]} <= set(ids[2:])
    assert all(task["artifacts"][0]["name"] == "answer" for task in full["tasks"])
    assert not any(task.get("history") for task in full["tasks"])
    pages = [task["id"] for page in (first, second) for task in page["tasks"]]
    assert pages == list(reversed(ids))
    assert none["tasks"] == []
    assert none["totalSize"] == 0
    # Those were asked through the card of the whole bus.
    assert of_card["tasks"] == []
    assert bad_time["code"] in {-32602, -32700}


async def test_separators_over_rest(bus_url: str) -> None:
    """Over HTTP+JSON too the line ends of Unicode cut no event of a stream, in and out."""
    text = "a\u2028b\u2029c\u0085d"
    async with gateway(bus_url, tck) as (client, _):
        raw = await client.http.post(
            client.url + "/rest/message:stream",
            json=message("rest-lines", "x" + text),
            headers={"A2A-Version": "1.0"},
        )
    events = [line[6:] for line in raw.text.splitlines() if line.startswith("data: ")]

    assert not {"\u2028", "\u2029", "\u0085"} & set(raw.text)
    assert json.loads(events[0])["task"]["history"][0]["parts"][0]["text"] == "x" + text
    assert "COMPLETED" in events[-1]


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


JSON_FILE = f'["\u2028", "https://errors.pydantic.dev", "{"x" * 2**21}"]'.encode()


async def test_files_by_bytes_and_by_reference(bus_url: str) -> None:
    """A small file comes back in the task, a large one by an address for its owner only."""
    large = "QUJD" * (600 * 1024)
    parts = [
        {"raw": "aGVsbG8=", "filename": "a.txt", "mediaType": "text/plain"},
        {"raw": large, "filename": "b.bin", "mediaType": "application/octet-stream"},
        {"url": "https://example.com/c", "filename": "c", "mediaType": "text/csv"},
        {
            "raw": b64encode(JSON_FILE).decode(),
            "filename": "/../é.json",
            "mediaType": "application/json",
        },
    ]
    async with gateway(bus_url, tck) as (client, _):
        task = (await client.result("SendMessage", message("files", parts=parts)))["task"]
        seen = task["history"][0]["parts"]
        content = await client.http.get(seen[1]["url"])
        missing = await client.http.get(seen[1]["url"][:-1] + "0")
        as_it_was = await client.http.get(seen[3]["url"])

    assert seen[0] == parts[0]
    assert seen[2] == parts[2]
    assert content.content == b"ABC" * (600 * 1024)
    assert "attachment" in content.headers["content-disposition"]
    assert missing.status_code == 404
    assert as_it_was.content == JSON_FILE
    assert as_it_was.headers["content-disposition"].endswith("''%2F..%2F%C3%A9.json")


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


async def test_an_agent_that_is_away_is_asked_all_the_same(bus_url: str) -> None:
    """A message to an agent that does not run waits for it; the log has a receipt."""
    async with gateway(bus_url) as (client, bus):
        await bus.registry.register(AgentCard(name="away"), holder="test")
        through = Client(client.url, client.http, "/agents/away/rpc")
        sent = message("w", configuration={"returnImmediately": True})
        task = (await through.result("SendMessage", sent))["task"]
        (stored,) = await find(bus, TaskId(task["id"]), MentionStored)

    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert isinstance(stored.data, MentionStored)
    assert stored.data.agents == ("away",)


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

"""What the shell completes: verbs, ids, threads, agents; quickly, and in silence."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.busreplay import DEADLINE_S, busreplay
from tests.support.nats_server import NatsServer
from tests.support.runs import revenue_run
from tests.support.story import NUMBERS, TASK
from threadbus.bus import connect
from threadbus.replay import export_line


def complete(*words: str, **variables: str) -> list[str]:
    """Return what bash offers for the last of the words."""
    result = busreplay(
        COMP_WORDS="\n".join(("busreplay", *words)),
        COMP_CWORD=str(len(words)),
        _BUSREPLAY_COMPLETE="complete_bash",
        **variables,
    )
    assert result.stderr == b""
    return result.stdout.decode().split()


def until(wanted: set[str], *words: str, **variables: str) -> list[str]:
    """Complete until what is wanted is offered: a busy machine may be slower than a person waits.

    Raises:
        AssertionError: it never was.
    """
    deadline = time.monotonic() + DEADLINE_S
    while True:
        offered = complete(*words, **variables)
        if wanted <= set(offered):
            return offered
        assert time.monotonic() < deadline, (wanted, offered)


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with one run."""
    path: Path = tmp_path_factory.mktemp("run") / "run.jsonl"
    path.write_bytes(b"".join([export_line(item) for item in revenue_run().log]))
    return str(path)


async def test_ids_and_verbs_begin_a_command(nats_server: NatsServer) -> None:
    """The ids of the server's super-tasks, the newest first, and the verbs."""
    async with connect(nats_server.url, name="user") as bus:
        first = (await bus.tasks.open("One", to=[])).event.task
        second = (await bus.tasks.open("Two", to=[])).event.task
    url = {"BUS_URL": nats_server.url}

    offered = until({first, second}, "", **url)
    assert "export" in offered
    assert offered.index(second) < offered.index(first)
    assert complete("exp", **url) == ["export"]
    until({second}, second[:31], **url)
    until({second}, "export", second[:8], **url)
    until({second}, "--url", nats_server.url, second[:8])


def test_threads_and_agents_of_the_task(run_file: str) -> None:
    """Once it is known which run is meant."""
    before = ("--file", run_file, TASK)

    assert until({"main", NUMBERS}, *before, "--thread", "") == ["main", NUMBERS]
    assert until({NUMBERS}, *before, "--thread", "ch") == [NUMBERS]
    until({"user", "planner", "coder", "document"}, *before, "--agent", "")
    assert until({"coder"}, *before, "--agent", "cod") == ["coder"]


def test_without_a_server_there_is_silence() -> None:
    """Verbs still come; nothing is said, and nobody waits long."""
    assert complete("exp", BUS_URL="nats://127.0.0.1:1") == ["export"]
    assert complete("0", BUS_URL="nats://127.0.0.1:1") == []
    assert complete("0", BUS_URL="no url at all") == []
    assert complete(TASK, "--agent", "", BUS_URL="nats://127.0.0.1:1") == []


def test_options_of_a_verb_are_its_own() -> None:
    """A verb completes by its own options."""
    assert "--output" in complete("export", "--")
    assert "--follow" not in complete("export", "--")
    assert "--follow" in complete("--")

"""The commands that look, and those that say something into a super-task."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.support.cli import Cli, Ran, echo, ended, gated, line_with, living, process
from tests.support.eventually import eventually
from threadbus.agents.cli.results import (
    Agents,
    Asked,
    Config,
    Diagnosis,
    Said,
    Status,
    Tasks,
    Threads,
)
from threadbus.bus import SETTINGS, connect
from threadbus.schemas import TaskId, TaskStatus, decode_event, new_task_id


async def ask_something(cli: Cli, question: str = "hello") -> TaskId:
    """Have one question answered; return its super-task."""
    async with connect(cli.url) as bus:
        return (await bus.ask(question, to=["parrot"])).task


async def test_tasks_are_listed_the_newest_first(cli: Cli) -> None:
    """Each row has the whole id, so that it can be copied."""
    async with living(cli.url, echo("parrot")):
        first, second = await ask_something(cli, "one"), await ask_something(cli, "two")
    text, parsed = await cli("tasks"), await cli("tasks", "--json", "-n", "2")

    lines = text.out.splitlines()
    assert lines[1].startswith(second)
    assert lines[2].startswith(first)
    assert [task.task for task in parsed.json(Tasks).tasks] == [second, first]
    assert parsed.json(Tasks).tasks[0].status is TaskStatus.COMPLETED


async def test_threads_show_who_takes_part(cli: Cli) -> None:
    """The main thread comes first; closed ones say how they ended."""
    async with connect(cli.url) as bus, living(cli.url, echo("parrot"), echo("raven")):
        task = (await bus.tasks.open("x", to=[], participants=["parrot", "raven"])).event.task
        side = await bus.threads.open(task, "Check numbers", participants=["raven"])
        await bus.threads.close(task, side.event.thread, summary="checked")
        text, parsed = await cli("threads", task), await cli("threads", task, "--json")
        await bus.tasks.cancel(task)

    main, other = parsed.json(Threads).threads
    assert (main.thread, main.is_open, main.participants) == (
        "main",
        True,
        ["user", "parrot", "raven"],
    )
    assert (other.title, other.is_open, other.outcome) == ("Check numbers", False, "concluded")
    assert "Check numbers" in text.out


async def test_agents_living_and_gone_are_told_apart(cli: Cli) -> None:
    """--living leaves out whoever has no heartbeat."""
    async with living(cli.url, echo("gone-one")):
        pass
    async with living(cli.url, echo("parrot")):
        everybody = (await cli("agents", "--json")).json(Agents).agents
        alive = (await cli("agents", "--living", "--json")).json(Agents).agents
        text = await cli("agents")

    assert {agent.name: agent.living for agent in everybody}["gone-one"] is False
    assert [agent.name for agent in alive] == ["parrot"]
    assert alive[0].card.description == "Says it again."
    assert "gone-one" in text.out


async def test_watch_prints_every_event_as_json_lines_and_ends_with_the_task(cli: Cli) -> None:
    """The lines are the log: each decodes, in order, and nothing is left out."""
    gate = asyncio.Event()
    async with connect(cli.url) as bus, living(cli.url, gated("sleeper", gate)):
        task = (await bus.tasks.open("watch me", to=["sleeper"])).event.task
        async with process("watch", task, "--json", env=cli.env) as watching:
            first = await line_with(watching, "task.opened")
            gate.set()
            ran = await ended(watching)

    rows = [msgspec.json.decode(line) for line in [first, *ran.out.splitlines()]]
    events = [decode_event(msgspec.json.encode(row["event"])) for row in rows]
    assert ran.code == 0
    assert events[0].type == "task.opened"
    assert events[-1].type == "task.closed"
    assert [row["seq"] for row in rows] == sorted(row["seq"] for row in rows)


async def test_watch_shows_a_finished_task_and_ends(cli: Cli) -> None:
    """There is nothing more to wait for."""
    async with living(cli.url, echo("parrot")):
        task = await ask_something(cli, "done already")
    ran = await cli("watch", task)

    assert ran.code == 0
    assert "done already" in ran.out
    assert "closes the super-task: completed" in ran.out


async def test_send_posts_and_wakes(cli: Cli) -> None:
    """A mentioned agent is woken; one that is gone gets it stored."""
    async with living(cli.url, echo("owl")):
        pass
    gate = asyncio.Event()
    async with connect(cli.url) as bus, living(cli.url, gated("sleeper", gate), echo("parrot")):
        opened = await bus.tasks.open("x", to=["sleeper"], participants=["owl", "parrot"])
        task = opened.event.task
        sent = await cli("send", task, "hey", "-m", "parrot", "-m", "owl", "--json")
        said = sent.json(Said)

        async def answered() -> bool:
            texts = [str(e) async for e in bus.read(task)]
            return any("echo: hey" in text for text in texts)

        await eventually(answered, "the parrot's echo")
        outsider = await cli("send", task, "hey", "--mention", "parot")
        no_thread = await cli("send", task, "hey", "--thread", "nowhere")
        stranger = await cli("send", task, "hey", "--as", "stranger")
        gate.set()

    assert said.stored == ["owl"]
    assert (outsider.code, no_thread.code, stranger.code) == (3, 3, 5)
    assert "parrot" in outsider.err
    assert "nowhere" in no_thread.err
    assert "stranger" in stranger.err


async def test_cancel_ends_a_task_once(cli: Cli) -> None:
    """The second time the bus refuses, and says how it ended."""
    async with connect(cli.url) as bus:
        task = (await bus.tasks.open("x", to=[])).event.task
        first = await cli("cancel", task, "--reason", "not needed")
        second = await cli("cancel", task)
        attached = await cli("attach", task, "--json")
        state = await bus.tasks.state(task)

    assert (first.code, second.code, attached.code) == (0, 5, 1)
    assert "cancelled" in second.err
    assert attached.json(Asked).status == "cancelled"
    assert (state.status, state.summary) == (TaskStatus.CANCELLED, "not needed")


async def test_a_reply_that_nobody_asked_for_is_refused(cli: Cli) -> None:
    """The error says that there is no open request."""
    async with connect(cli.url) as bus:
        task = (await bus.tasks.open("x", to=[])).event.task
    ran = await cli("reply", task, "blue")

    assert ran.code == 5
    assert "0 questions are open" in ran.err


async def test_a_unique_beginning_of_an_id_is_enough(cli: Cli) -> None:
    """One that several tasks share is refused with what it could mean."""
    async with living(cli.url, echo("parrot")):
        first, second = await ask_something(cli, "one"), await ask_something(cli, "two")
    shared = first[: next(i for i in range(32) if first[i] != second[i])]
    found, several = await cli("threads", first[:31], "--json"), await cli("threads", shared)

    assert found.json(Threads).task == first
    assert several.code == 3
    assert first in several.err
    assert second in several.err


@pytest.mark.parametrize("command", ["attach", "cancel", "threads", "watch"])
async def test_an_unknown_task_gives_near_ones(cli: Cli, command: str) -> None:
    """A slip in an id is answered with the id that was meant; nonsense with the newest."""
    async with living(cli.url, echo("parrot")):
        task = await ask_something(cli)
    slip = task[:-1] + ("0" if task[-1] != "0" else "1")
    near, far = await cli(command, slip), await cli(command, "nonsense")

    assert (near.code, far.code) == (3, 3)
    assert task in near.err
    assert task in far.err


async def test_status_shows_server_streams_agents_and_what_waits(cli: Cli) -> None:
    """The age of the oldest waiting mention and its task are there."""
    async with living(cli.url, echo("barn-owl")):
        pass
    async with connect(cli.url) as bus, living(cli.url, echo("parrot")):
        task = (await bus.tasks.open("anybody?", to=["barn-owl"])).event.task

        async def waits() -> bool:
            return bool((await bus.pending_mentions()).get("barn-owl"))

        await eventually(waits, "the mention in the inbox")
        text, parsed = await cli("status"), (await cli("status", "--json")).json(Status)
        await bus.tasks.cancel(task)

    streams = {stream.name: stream for stream in parsed.streams}
    owl = next(row for row in parsed.unanswered if row.agent == "barn-owl")
    assert set(streams) == {"BUS", "MENTIONS", "KV_AGENTS", "KV_PRESENCE", "OBJ_ARTIFACTS"}
    assert len(parsed.streams) == len(streams)
    assert streams["BUS"].messages > 0
    assert streams["BUS"].bytes > 0
    assert not any(stream.differences for stream in parsed.streams)
    assert "parrot" in parsed.living
    assert "barn-owl" in parsed.gone
    assert owl.oldest_sender == "user"
    assert (owl.oldest_age or 0) > 0
    assert parsed.version.startswith("2.")
    assert parsed.url_source == "environment"
    for word in (cli.url, parsed.version, "power", "MENTIONS", "barn-owl", task):
        assert word in text.out


async def test_doctor_finds_what_is_wrong_and_says_what_to_do(cli: Cli) -> None:
    """Somebody gone, and a mention that waits too long, are problems; the rest is ok."""
    async with living(cli.url, echo("owl")):
        pass
    async with connect(cli.url) as bus:
        await bus.tasks.open("anybody?", to=["owl"])

        async def waits() -> bool:
            return bool((await bus.pending_mentions()).get("owl"))

        await eventually(waits, "the mention in the inbox")
        text = await cli("doctor")
        ran = await cli("doctor", "--json", "--minutes", "0.000001")

    checks = {check.name: check for check in ran.json(Diagnosis).checks}
    assert (text.code, ran.code) == (1, 1)
    assert "bus run" in text.out
    assert {name for name, check in checks.items() if check.verdict == "wrong"} == {
        "agents",
        "mentions",
    }
    assert "owl" in checks["mentions"].found
    assert checks["clock"].verdict == "ok"


async def test_config_tells_where_each_value_comes_from(cli: Cli) -> None:
    """A flag counts more than a variable, and that more than the default."""
    extra = {"BUS_ACK_WAIT": "7", "OPENAI_API_KEY": "sk-secret", "BUS_CONNECT_TIMEOUT": "9"}
    ran = await cli("--as", "ada", "config", "--json", "--connect-timeout", "5", env=extra)
    text = await cli("config", "--url", "nats://me:secret@example.org:1", env=extra)

    rows = {row.env: row for row in ran.json(Config).settings}
    assert {info.env for info in SETTINGS} <= set(rows)
    shown = {env: (row.value, row.source) for env, row in rows.items()}
    assert shown["BUS_AS"] == ("ada", "flag")
    assert shown["BUS_CONNECT_TIMEOUT"] == ("5", "flag")
    assert shown["BUS_ACK_WAIT"] == ("7", "environment")
    assert shown["BUS_DRAIN_TIMEOUT"] == ("10", "default")
    assert "secret" not in ran.out + text.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_completion_prints_a_script_for_a_shell(cli: Cli, shell: str) -> None:
    """The script asks the command itself for what can follow."""
    ran = await cli("completion", shell)

    assert ran.code == 0
    assert "_BUS_COMPLETE" in ran.out


async def test_the_script_of_bash_completes_commands(cli: Cli) -> None:
    """What can follow `bus ta` is `tasks`."""
    words = {"_BUS_COMPLETE": "complete_bash", "COMP_WORDS": "bus ta", "COMP_CWORD": "1"}
    ran = await cli(env=words)

    assert "tasks" in ran.out.split()


async def test_looking_at_an_empty_server_is_no_error(cli: Cli) -> None:
    """There is just nothing yet, and the way on is said."""
    runs: list[Ran] = [await cli("tasks", "-n", "1"), await cli("agents", "--living")]

    assert [ran.code for ran in runs] == [0, 0]
    assert (await cli("attach", new_task_id())).code == 3

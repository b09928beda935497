"""`bus ask` and `bus attach`, as a person runs them."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
from pathlib import Path

import pytest

from tests.support.cli import Cli, echo, ended, gated, line_with, living, process
from tests.support.eventually import PATIENCE_S, eventually
from threadbus.agents import Agent, GiveUpError, Mention
from threadbus.agents.cli.results import Asked
from threadbus.bus import connect
from threadbus.schemas import FilePart, MentionStored, Recorded, TaskOpened, TextPart

WAITS_FOR_A_FILE = """\
import asyncio
from contextlib import suppress
from pathlib import Path

from threadbus.agents import Agent, Mention

agent = Agent("ibis", description="Waits for a file.")


@agent.on_mention
async def handle(mention: Mention) -> str:
    Path("begun").touch()
    while not Path("go").exists():
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await asyncio.Event().wait()
    return f"heard {mention.text}"
"""


async def test_the_answer_alone_goes_to_standard_output(cli: Cli) -> None:
    """What was said on the way goes to standard error, so the answer can be piped."""
    async with living(cli.url, echo("parrot")):
        ran = await cli("ask", "hello there", "--to", "parrot")

    assert (ran.code, ran.out) == (0, "echo: hello there\n")
    assert "asks → parrot" in ran.err
    assert "completed in" in ran.err


async def test_without_to_the_one_living_agent_is_asked(cli: Cli) -> None:
    """Where there is no choice, nothing has to be chosen."""
    async with living(cli.url, echo("parrot")):
        ran = await cli("ask", "hello")

    assert (ran.code, ran.out) == (0, "echo: hello\n")


async def test_without_to_and_with_several_agents_it_says_whom_one_can_ask(cli: Cli) -> None:
    """A guess among several would ask the wrong one."""
    async with living(cli.url, echo("parrot"), echo("raven")):
        ran = await cli("ask", "hello")

    assert ran.code == 2
    assert "these live: parrot, raven" in ran.err


async def test_json_has_the_answer_and_what_it_took(cli: Cli) -> None:
    """With --json the answer is one line with documented keys, and nothing else is printed."""
    async with living(cli.url, echo("parrot")):
        ran = await cli("ask", "hello", "--to", "parrot", "--json")

    asked = ran.json(Asked)
    assert ran.code == 0
    assert (asked.status, asked.answer, asked.stored) == ("completed", "echo: hello", [])
    assert asked.parts == (TextPart("echo: hello"),)
    assert ran.out.count("\n") == 1


async def test_a_question_to_somebody_who_is_gone_is_stored_and_answered_later(cli: Cli) -> None:
    """The asker is told, the log has the receipt, and `attach` brings the answer."""
    async with living(cli.url, echo("owl")):
        pass

    asked = await cli("ask", "are you there?", "--to", "owl", "--no-wait")
    task = asked.out.strip()
    async with connect(cli.url) as bus:
        found = [
            e.event
            async for e in bus.read((await bus.find_tasks(task))[0])
            if isinstance(e, Recorded)
        ]
    async with living(cli.url, echo("owl")):
        attached = await cli("attach", task)

    assert asked.code == 0
    assert "stored: owl" in asked.err
    assert f"bus attach {task}" in asked.err
    assert [event.data for event in found[1:]] == [MentionStored(agents=("owl",))]
    assert found[1].cause == found[0].id
    assert (attached.code, attached.out) == (0, "echo: are you there?\n")


async def test_an_agent_that_is_killed_at_its_work_is_told_to_who_waits(
    cli: Cli, tmp_path: Path
) -> None:
    """Once its heartbeat is gone, also to who comes back; started again, it answers."""
    (tmp_path / "team.py").write_text(WAITS_FOR_A_FILE, encoding="utf-8")
    words = ("run", "team:agent", "--json", "--presence-ttl", "2", "--ack-wait", "2")
    async with process(*words, env=cli.env, cwd=tmp_path) as agent:
        await line_with(agent, '"pid"')
        async with process("ask", "a long one", "--to", "ibis", env=cli.env) as asking:
            task = (await line_with(asking, "super-task", of="stderr")).split()[-1]
            await eventually((tmp_path / "begun").exists, "the work to begin")
            agent.kill()
            gone = await line_with(asking, "not living", of="stderr")
            async with process("attach", task, env=cli.env) as attaching:
                again = await line_with(attaching, "not living", of="stderr")
                (tmp_path / "go").touch()
                async with process(*words, env=cli.env, cwd=tmp_path):
                    ends = [await ended(one) for one in (asking, attaching)]

    assert gone == again
    assert gone.startswith("ibis is not living now; what it was asked waits")
    assert [(end.code, end.out) for end in ends] == [(0, "heard a long one\n")] * 2


async def test_files_go_with_the_question(cli: Cli, tmp_path: Path) -> None:
    """Each file becomes a part with its name, type and bytes."""
    first, second = tmp_path / "data.csv", tmp_path / "raw"
    first.write_bytes(b"a,b\n1,2\n")
    second.write_bytes(b"\x00\xff")
    async with living(cli.url, echo("parrot")):
        ran = await cli(
            "ask", "see", "--to", "parrot", "--file", str(first), "-f", str(second), "--json"
        )
    async with connect(cli.url) as bus:
        (task,) = await bus.find_tasks(ran.json(Asked).task)
        state = await bus.tasks.state(task)

    assert state.question == (
        TextPart("see"),
        FilePart(b"a,b\n1,2\n", "data.csv", "text/csv"),
        FilePart(b"\x00\xff", "raw", "application/octet-stream"),
    )


async def test_participants_and_budget_are_in_the_opening(cli: Cli) -> None:
    """--with lets others in, --budget bounds the tokens of the whole task."""
    async with living(cli.url, echo("parrot"), echo("raven")):
        ran = await cli(
            "ask", "x", "--to", "parrot", "--with", "raven", "--budget", "500", "--json"
        )
    async with connect(cli.url) as bus:
        (task,) = await bus.find_tasks(ran.json(Asked).task)
        (opening, *_) = [e async for e in bus.read(task) if isinstance(e, Recorded)]

    assert isinstance(opening.event.data, TaskOpened)
    assert opening.event.data.participants == ("parrot", "raven")
    assert opening.event.data.token_budget == 500


async def test_not_in_time_ends_with_124_and_the_task_goes_on(cli: Cli) -> None:
    """--timeout bounds the waiting, not the work."""
    gate = asyncio.Event()
    async with living(cli.url, gated("sleeper", gate)):
        ran = await cli("ask", "wait", "--to", "sleeper", "--timeout", "0.2")
        task = re.search(r"bus attach (\w{32})", ran.err)
        assert task is not None
        gate.set()
        attached = await cli("attach", task[1])

    assert ran.code == 124
    assert (attached.code, attached.out) == (0, "after the gate: wait\n")


async def test_a_task_that_fails_ends_with_1_and_says_why(cli: Cli) -> None:
    """There is no answer to print; the reason and the way to look closer are."""
    agent = Agent("grump")

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        raise GiveUpError("not today")

    async with living(cli.url, agent):
        ran = await cli("ask", "please", "--to", "grump")

    assert (ran.code, ran.out) == (1, "")
    assert "ended without an answer: failed" in ran.err
    assert "not today" in ran.err
    assert "busreplay" in ran.err


async def test_ctrl_c_detaches_and_says_how_to_come_back(cli: Cli) -> None:
    """The task goes on without us, and `attach` has its whole story and answer."""
    gate = asyncio.Event()
    async with living(cli.url, gated("sleeper", gate)):
        async with process("ask", "slow one", "--to", "sleeper", env=cli.env) as asking:
            await line_with(asking, "asks → sleeper", of="stderr")
            asking.send_signal(signal.SIGINT)
            detached = await ended(asking)
        task = re.search(r"bus attach (\w{32})", detached.err)
        assert task is not None
        gate.set()
        attached = await cli("attach", task[1][:31])

    assert detached.code == 130
    assert "Traceback" not in detached.err
    assert (attached.code, attached.out) == (0, "after the gate: slow one\n")
    assert "slow one" in attached.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("hi", "--to", "parot"), 3, "parrot"),
        (("hi", "--to", "Not A Name"), 2, "agent name"),
        (("  ", "--to", "parrot"), 2, "the question is empty"),
        (("hi", "--to", "parrot", "--file", "no-such-file"), 2, "No such file"),
        (("hi", "--to", "parrot", "--file", "."), 2, "directory"),
        (("hi", "--to", "parrot", "--budget", "0"), 2, "--budget"),
        (("hi", "--to", "parrot", "--timeout", "-1"), 2, "--timeout"),
        (("hi", "--to", "parrot", "--no-such-flag"), 2, "No such option"),
        ((), 2, "Missing argument"),
    ],
    ids=["unknown", "bad-name", "empty", "no-file", "folder", "budget", "timeout", "flag", "none"],
)
async def test_bad_questions_are_refused(
    cli: Cli, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """The error names what is wrong; nothing is opened."""
    async with living(cli.url, echo("parrot")):
        ran = await cli("ask", *arguments)
    async with connect(cli.url) as bus:
        opened = [task.title for task in await bus.tasks.list()]

    assert ran.code == code
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert "hi" not in opened


def asking_agent(name: str) -> Agent:
    """Make an agent that asks its asker back."""
    agent = Agent(name)

    @agent.on_mention
    async def handle(mention: Mention) -> str:
        return f"you like {await mention.request_input('Which colour do you like?')}"

    return agent


async def test_an_input_request_is_shown_with_how_to_answer_it(cli: Cli) -> None:
    """Where nobody can type, the command to answer with is printed, and works."""
    async with (
        living(cli.url, asking_agent("curious")),
        process("ask", "guess", "--to", "curious", env=cli.env) as asking,
    ):
        await line_with(asking, "needs an answer from you", of="stderr")
        hint = await line_with(asking, "bus reply", of="stderr")
        words = hint.partition("bus ")[2].split()
        replied = await cli(*[word if word != "TEXT" else "blue" for word in words])
        again = await cli("reply", words[1], "red")
        ran = await ended(asking)

    assert replied.code == 0
    assert again.code == 5
    assert (ran.code, ran.out) == (0, "you like blue\n")


async def test_an_input_request_is_answered_at_the_terminal(cli: Cli) -> None:
    """Where somebody can type, what is typed is the answer."""
    master, slave = pty.openpty()
    try:
        async with (
            living(cli.url, asking_agent("curious")),
            process("ask", "guess", "--to", "curious", env=cli.env, stdin=slave) as asking,
        ):
            assert asking.stderr is not None
            async with asyncio.timeout(PATIENCE_S * 2):
                await asking.stderr.readuntil(b"your answer> ")
            os.write(master, b"green\n")
            ran = await ended(asking)
    finally:
        os.close(master)
        os.close(slave)

    assert (ran.code, ran.out) == (0, "you like green\n")
    assert "Error" not in ran.err


async def test_what_others_wrote_cannot_reach_the_terminal_as_commands(cli: Cli) -> None:
    """Escape sequences, bells and text that reorders a line are shown, not obeyed."""
    nasty = "red \x1b[31m bell \x07 bidi \u202e end\rover"
    async with living(cli.url, echo("parrot")):
        ran = await cli("ask", nasty, "--to", "parrot")

    for stream in (ran.out, ran.err):
        assert not {c for c in stream if not c.isprintable()} - {"\n"}
    assert r"\x1b[31m" in ran.out
    assert r"\u202e" in ran.out


async def test_an_ascii_terminal_gets_ascii(cli: Cli) -> None:
    """In a locale without Unicode nothing breaks: signs have their stand-ins, text is escaped."""
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    async with living(cli.url, echo("parrot")):
        ran = await cli("ask", "ein Gruß → 你好", "--to", "parrot", env=ascii_only)

    assert ran.code == 0
    assert (ran.out + ran.err).isascii()
    assert "asks -> parrot" in ran.err
    assert r"Gru\xdf" in ran.out


async def test_lines_fit_eighty_columns_when_piped(cli: Cli) -> None:
    """Long text is wrapped under itself; only whole ids and commands may be longer."""
    async with living(cli.url, echo("parrot")):
        ran = await cli("ask", "many words " * 60, "--to", "parrot")

    shown = [line for line in ran.err.splitlines() if not line.startswith("super-task")]
    assert max(map(len, shown)) <= 80

"""``bus init``: a project to start from, in which every printed command works."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from threadbus.agents.cli.app import command
from threadbus.agents.cli.failures import UsageError
from threadbus.agents.cli.results import Project
from threadbus.agents.cli.shell import Shell
from threadbus.schemas import canonical_agent_name, parse_agent_name

_AGENT: Final = '''\
"""The agent {name}: counts the words of what it is asked. Change `handle` to do your work."""

from threadbus.agents import Agent, Mention

agent = Agent("{name}", description="Counts the words of a text.")


@agent.on_mention
async def handle(mention: Mention) -> str:
    """Answer one mention; what is returned is the reply."""
    await mention.progress("counting")
    words = mention.text.split()
    return f"{{len(words)}} words, the longest is {{max(words, key=len, default='none')!r}}"


# With a model (BUS_MODEL and OPENAI_API_KEY, and OPENAI_BASE_URL for another server):
#
#     from threadbus.agents.model import ChatMessage
#
#     answer = await mention.thinking.complete([ChatMessage.user(mention.text)])
#     return answer.text
'''
_README: Final = """\
# {name}

An agent on a threadbus. Start a server (once, in a terminal of its own), the agent, and ask it:

```console
$ bus up
$ bus run agent:agent
$ bus ask "How many words are there in this question?" --to {name}
```

`agent.py` is the whole agent. `bus run agent:agent --replicas 3` runs three processes that share
the work, `bus agents` shows who lives, and `busreplay TASK` what was done for a question.
"""


@command("init", panel="Run")
def init(
    shell: Shell,
    folder: Annotated[Path, typer.Argument(help="Where; it is made if it is missing.")] = Path(),
    agent_name: Annotated[
        str, typer.Option("--name", help="The agent's name; that of the folder if absent.")
    ] = "",
) -> None:
    """Make a new agent: a small agent.py and a README with the commands to run it."""
    name = parse_agent_name(agent_name) if agent_name else _name_of(folder)
    files = {
        folder / "agent.py": _AGENT.format(name=name),
        folder / "README.md": _README.format(name=name),
    }
    for path in files:
        if path.exists():
            raise UsageError(
                "FOLDER", str(folder), f"{path.name} is there already; choose another folder"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError("FOLDER", str(folder), error.strerror or str(error)) from error
    if shell.json:
        shell.result(
            Project(folder=str(folder.resolve()), agent=name, files=[path.name for path in files])
        )
        return
    shell.say(f"made the agent {name} in {folder.resolve()}", "bold green")
    shell.say("Next, with a server running (`bus up`):")
    if folder != Path():
        shell.say(f"  cd {shlex.quote(str(folder))}")
    shell.say("  bus run agent:agent")
    shell.say("and in another terminal:")
    shell.say(f'  bus ask "How many words are there in this question?" --to {name}')


def _name_of(folder: Path) -> str:
    return canonical_agent_name(folder.resolve().name.lower() or "agent")

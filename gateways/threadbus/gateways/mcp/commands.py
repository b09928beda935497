"""``bus gateway mcp`` and ``bus gateway token``; what they need is imported when they run."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from threadbus.agents.cli import ExitCode, Shell, command, exit_with
from threadbus.gateways.cli import group
from threadbus.gateways.errors import (
    GatewayError,
    InvalidOptionError,
    MissingExtraError,
    TokensFileError,
)
from threadbus.schemas import parse_agent_name

_NEEDED: Final = ("mcp", "uvicorn")

Texts = list[str]


class Serving(msgspec.Struct, frozen=True):
    """What ``bus gateway mcp --http`` prints with ``--json`` once it is ready."""

    url: str
    pid: int


class Plugged(msgspec.Struct, frozen=True):
    """What ``bus gateway mcp-client`` prints with ``--json`` each time that the server is up."""

    agent: str
    tools: list[str]


class Token(msgspec.Struct, frozen=True):
    """What ``bus gateway token`` prints with ``--json``."""

    agent: str
    token: str


exit_with(GatewayError, ExitCode.FAILED)
for _kind in (InvalidOptionError, TokensFileError, MissingExtraError):
    exit_with(_kind, ExitCode.USAGE)


@command("mcp", group=group, log_level="info")
async def serve_mcp(
    shell: Shell,
    http: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Serve over HTTP there; port 0 takes a free one."),
    ] = "",
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Serve the host that started this process.")
    ] = False,
    agent: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The agent that the host is: needed with --stdio; with --http instead of "
            "--tokens, on a loopback address only.",
        ),
    ] = "",
    description: Annotated[
        str, typer.Option(help="What that agent can do, for others who look for one.")
    ] = "",
    tokens: Annotated[
        Path | None,
        typer.Option(help="File that says which bearer token is which agent (`gateway token`)."),
    ] = None,
    coral: Annotated[
        bool, typer.Option("--coral", help="Show the tools by the names of Coral, too.")
    ] = False,
    host_name: Annotated[
        Texts, typer.Option(help="A name that Host may have, beside the loopback; may be repeated.")
    ] = [],  # noqa: B006 - typer makes a new list each time
    origin: Annotated[
        Texts, typer.Option(help="An Origin that browsers may come from; may be repeated.")
    ] = [],  # noqa: B006
    state_keys: Annotated[
        Path | None,
        typer.Option(
            help="File with keys of at least 32 characters, one a line, that gateway processes "
            "behind one address share; the first one seals."
        ),
    ] = None,
    issuer: Annotated[str, typer.Option(help="OAuth server at which hosts may get a token.")] = "",
    public_url: Annotated[
        str, typer.Option(help="How hosts reach the gateway; with --issuer.")
    ] = "",
) -> None:
    """Let MCP hosts in: each is an agent on the bus, and each bus agent is a tool for it.

    Over HTTP a bearer token says which agent a host is. Over stdio --agent does. Ends at Ctrl-C,
    SIGTERM, or with the host that started it.
    """
    if bool(http) == stdio:
        raise InvalidOptionError("--http and --stdio", "", "give one of the two")
    name = parse_agent_name(agent) if agent else None
    need_extra("mcp", _NEEDED)
    from threadbus.gateways.mcp import running

    if stdio:
        if name is None:
            raise InvalidOptionError("--stdio", "", "it needs --agent NAME: who the host is")
        await running.over_stdio(shell.settings(), running.options(name, description, coral=coral))
        return

    def on_ready(url: str, pid: int) -> None:
        if shell.json:
            shell.result(Serving(url=url, pid=pid))
            return
        shell.say(f"MCP gateway at {url}")
        who = f"everybody is {name}" if name else "a bearer token says who a host is"
        shell.say(f"  {who}; Ctrl-C stops it", "dim")

    await running.over_http(
        shell.settings(),
        running.options(name, description, coral=coral, state_keys=state_keys),
        running.http_options(
            http,
            name,
            tokens,
            hosts=host_name,
            origins=origin,
            issuer=issuer,
            public_url=public_url,
        ),
        http,
        on_ready,
    )


@command("token", group=group)
def make_token(
    shell: Shell,
    agent: Annotated[str, typer.Argument(help="The agent that the token stands for.")],
    tokens: Annotated[Path, typer.Option(help="The tokens file; made where it does not exist.")],
    principal: Annotated[
        str, typer.Option(help="Who has the token, where that is more than the agent's name.")
    ] = "",
) -> None:
    """Make a bearer token for an agent and add its hash to a tokens file.

    The token is shown once. A running gateway takes it in by itself.
    """
    from threadbus.gateways.principals import add_token

    token = add_token(tokens, agent, principal)
    if shell.json:
        shell.result(Token(agent=agent, token=token))
        return
    shell.say(token)
    shell.note(f"a token for {agent}, added to {tokens}; it is not shown again", "dim")


@command("mcp-client", group=group, log_level="info")
async def plug_mcp_server(
    shell: Shell,
    words: Annotated[
        Texts | None,
        typer.Argument(metavar="[-- COMMAND...]", help="Command that starts the server."),
    ] = None,
    server_url: Annotated[
        str, typer.Option(metavar="URL", help="Where the server is, instead of a command.")
    ] = "",
    token_file: Annotated[
        Path | None, typer.Option(help="File with the bearer token for the server.")
    ] = None,
    env: Annotated[Texts, typer.Option(help="NAME=VALUE for the command; may be repeated.")] = [],  # noqa: B006
    description: Annotated[
        str, typer.Option(help="What the agent can do; what the server says of itself if absent.")
    ] = "",
    takeover: Annotated[
        bool, typer.Option("--takeover", help="Replace whoever holds the name; it stops.")
    ] = False,
) -> None:
    """Make an agent of an MCP server: its tools are skills, and a mention calls them.

    The agent's name is that of --as. A mention has a data part {"tool": …, "arguments": {…}}, or
    words, for which a model (BUS_MODEL) chooses a tool. A server that dies is started again.
    """
    if bool(words) == bool(server_url):
        raise InvalidOptionError("COMMAND and --server-url", "", "give one of the two")
    need_extra("mcp", _NEEDED)
    from threadbus.agents.model import ModelSettings
    from threadbus.gateways.mcp import client_running, remote

    settings = shell.settings()
    target = remote.Target(
        command=tuple(words or ()),
        env=_variables(env) or None,
        url=server_url,
        token="" if token_file is None else _secret(token_file),
        label=server_url.partition("?")[0] or Path((words or [""])[0]).name,
    )
    model = ModelSettings.from_env()

    def on_ready(server: remote.RemoteServer) -> None:
        tools = [tool.name for tool in server.tools]
        if shell.json:
            shell.result(Plugged(agent=settings.name, tools=tools))
            return
        shell.say(f"{settings.name} is the MCP server {target.label}, with {len(tools)} tools")

    await client_running.run_client(
        settings,
        target,
        description=description,
        model=model if model.model else None,
        takeover=takeover,
        on_ready=on_ready,
    )


def _variables(words: Texts) -> dict[str, str]:
    variables: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise InvalidOptionError("--env", word, "it is NAME=VALUE")
        variables[name] = value
    return variables


def _secret(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOptionError("--token-file", str(path), "it cannot be read") from error


def need_extra(extra: str, modules: tuple[str, ...]) -> None:
    """Check that what an extra installs is there.

    Raises:
        MissingExtraError: it is not.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise MissingExtraError(extra, str(error.name)) from error

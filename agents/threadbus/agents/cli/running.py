"""``bus up`` and ``bus run``: keep a server or an agent running in this terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from threadbus.agents.adapters import from_command, from_http
from threadbus.agents.agent import Agent
from threadbus.agents.cli.app import command
from threadbus.agents.cli.exits import ExitCode
from threadbus.agents.cli.failures import UsageError
from threadbus.agents.cli.jaeger import OTLP_PORT, UI_PORT, running_jaeger
from threadbus.agents.cli.results import Running, Up
from threadbus.agents.cli.shell import Shell
from threadbus.agents.cli.text import safe_url
from threadbus.agents.loading import load_agent
from threadbus.agents.model import PLAYBOOK, ModelSettings
from threadbus.agents.serving import HOLDER_VARIABLE, serve, supervise
from threadbus.bus import SETTINGS, BusError, SteadyLog, access, connect, server

_MAX_REPLICAS: Final = 256
_LAST_MOMENTS_S: Final = 5.0
_log: Final = SteadyLog("threadbus.cli")


@command("up", panel="Run", log_level="info")
async def up(
    shell: Shell,
    data: Annotated[
        Path | None, typer.Option(help="Data folder, kept over restarts; yours if absent.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; without --auth whoever reaches it is let in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = server.DEFAULT_PORT,
    sync_always: Annotated[
        bool,
        typer.Option(
            "--sync-always",
            help="Force each event to the disk before it is acknowledged: survives a power cut.",
        ),
    ] = False,
    auth: Annotated[
        Path | None,
        typer.Option("--auth", help="Access folder of `bus auth`: only its keys are let in."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--server-cert", help="Certificate (PEM): TLS only.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--server-key", help="Its key (PEM).")] = None,
    tls_ca: Annotated[
        Path | None,
        typer.Option("--client-ca", help="Certificates (PEM) that must vouch for each client."),
    ] = None,
    jaeger: Annotated[
        bool,
        typer.Option("--jaeger", help="Run a Jaeger too, for traces: docs/traces.md."),
    ] = False,
    jaeger_port: Annotated[int, typer.Option(help="Port of Jaeger's page.")] = UI_PORT,
    otlp_port: Annotated[int, typer.Option(help="Port where Jaeger takes spans.")] = OTLP_PORT,
) -> None:
    """Keep a server running in this terminal until Ctrl-C.

    Everything is kept in the data folder. Other commands of this user find the server by
    themselves.
    """
    folder = None if auth is None else access.AccessFolder(auth)
    tenants = () if folder is None else folder.tenants()
    if folder is not None and folder.is_interrupted:
        # Somebody who was to be revoked could stand in the accounts still.
        await folder.rewrite()
        tenants = folder.tenants()
    limits = server.ServerSettings(
        sync_interval="always" if sync_always else None,
        access=None if folder is None else folder.config,
        tls_cert=tls_cert,
        tls_key=tls_key,
        tls_ca=tls_ca,
    )

    async def on_ready(running: server.EmbeddedServer) -> None:
        if folder is not None:
            await _make_streams(shell, running.url, folder, tenants)
        if shell.json:
            shell.result(
                Up(
                    url=running.url,
                    pid=running.pid,
                    data=str(running.data),
                    version=running.version,
                )
            )
            return
        shell.say(f"nats-server {running.version} is up at {running.url}", "bold green")
        shell.say(f"  data  {running.data}")
        shell.say(f"  log   {running.log_path}")
        shell.say("In another terminal:")
        shell.say("  bus init my-agent      make an agent to start from")
        shell.say("  bus status             see what there is")
        shell.say("  bus demo               see a team at work, on a server of its own")
        if jaeger:
            shell.say(f"Jaeger is up at http://127.0.0.1:{jaeger_port}", "bold green")
            collector = f"http://127.0.0.1:{otlp_port}"
            shell.say(f"  bus trace --otlp {collector}      send it every super-task, live")
            shell.say(f"  busreplay TASK --otlp {collector}")
            if jaeger_port != UI_PORT:
                page = f"http://127.0.0.1:{jaeger_port}"
                shell.say(f"  export BUS_JAEGER_UI={page}    where links lead that are printed")
        shell.say("Commands on other machines or of other users need:")
        shell.say(f"  export BUS_URL={running.url}")
        shell.say("Ctrl-C stops the server; the data stays.", "dim")
        sys.stdout.flush()

    beside = running_jaeger(otlp_port=otlp_port, ui_port=jaeger_port) if jaeger else nullcontext()
    async with beside:
        await server.run_foreground(
            data=data, host=host, port=port, settings=limits, on_ready=on_ready
        )
    shell.note("stopped; the data is kept", "dim")


async def _make_streams(
    shell: Shell, url: str, folder: access.AccessFolder, tenants: Sequence[access.Tenant]
) -> None:
    """Make the streams of each tenant: its agents may not."""
    for tenant in tenants:
        operators = [one for one in tenant.identities if one.role is access.Role.OPERATOR]
        keys = [folder.key_path(one.name, tenant.name) for one in operators]
        key = next((path for path in keys if path.is_file()), None)
        if key is None:
            shell.note(f"tenant {tenant.name}: the operator's key is not here, no streams made")
            continue
        settings = replace(shell.settings(), url=url, nkey=str(key))
        try:
            async with connect(settings, name="operator"):
                pass
        except BusError as error:
            shell.note(f"tenant {tenant.name}: no streams made: {error}")


@command("run", panel="Run", log_level="info")
async def run(
    shell: Shell,
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:AGENT",
            help="An Agent, or a function run(task_desc) -> str; also path/to/file.py:name.",
        ),
    ] = "",
    program: Annotated[
        str,
        typer.Option(
            "--command",
            help="Instead: a program that reads the task and writes the reply; with --name.",
        ),
    ] = "",
    endpoint: Annotated[
        str,
        typer.Option("--http", help='Instead: a URL that is posted {"task_desc": …}; with --name.'),
    ] = "",
    replicas: Annotated[int, typer.Option(help="Processes that share the work.")] = 1,
    agent_name: Annotated[
        str, typer.Option("--name", help="Run it under another name than its own.")
    ] = "",
    takeover: Annotated[
        bool, typer.Option("--takeover", help="Replace whoever holds the name; it stops.")
    ] = False,
    while_stdin: Annotated[bool, typer.Option("--while-stdin", hidden=True)] = False,
) -> ExitCode | int:
    """Run an agent until Ctrl-C or SIGTERM; then it finishes what it works on.

    What it thinks with comes from the environment: BUS_MODEL, OPENAI_API_KEY, OPENAI_BASE_URL.
    The log goes to standard error.
    """
    if not 1 <= replicas <= _MAX_REPLICAS:
        raise UsageError("--replicas", str(replicas), f"1 to {_MAX_REPLICAS}")
    settings = shell.settings()
    # The error for a target that cannot be loaded comes once, not from every replica.
    agent = _agent_of(target, program, endpoint, agent_name)
    model = _model_of(agent)
    url = safe_url(settings.url)
    if replicas > 1:
        _hand_down(shell, settings.url)
        words = ["-m", "threadbus.agents.cli", "run", "--while-stdin"]
        words += [target] if target else []
        words += ["--command", program] if program else []
        words += ["--http", endpoint] if endpoint else []
        words += ["--name", agent_name] if agent_name else []
        words += ["--takeover"] if takeover else []
        words += ["--json"] if shell.json else []
        _log.info("starting replicas", agent=agent.name, replicas=replicas, url=url)
        return await supervise(words, replicas)

    def on_ready(_: object) -> None:
        name = "" if model is None else model.model_for(agent.name)
        is_playbook = name == PLAYBOOK
        if shell.json:
            shell.result(
                Running(agent=agent.name, pid=os.getpid(), model=name, playbook=is_playbook)
            )
        thinks = "playbook, no model is asked" if is_playbook else name or "none"
        _log.info("taking mentions", agent=agent.name, url=url, model=thinks)

    _log.info("starting", agent=agent.name, url=url, pid=os.getpid())
    async with _ending_with_stdin(wanted=while_stdin):
        await serve(agent, settings, model=model, takeover=takeover, on_ready=on_ready)
    _log.info("stopped in order", agent=agent.name)
    return ExitCode.OK


def _agent_of(target: str, program: str, endpoint: str, name: str) -> Agent:
    given = [value for value in (target, program, endpoint) if value]
    if len(given) != 1:
        raise UsageError(
            "MODULE:AGENT", " ".join(given), "one of MODULE:AGENT, --command and --http"
        )
    if target:
        return load_agent(target, name=name)
    if not name:
        raise UsageError("--name", "", "the name that this agent is to have")
    return from_command(program, name) if program else from_http(endpoint, name)


def _model_of(agent: Agent) -> ModelSettings | None:
    """Return what *agent* thinks with, None where no model is named for it.

    Raises:
        InvalidSettingError: a variable cannot be used.
    """
    model = ModelSettings.from_env()
    if model.model or agent.name.upper().replace("-", "_") in model.agent_models:
        return model
    return None


def _hand_down(shell: Shell, url: str) -> None:
    """Give the settings that were typed, and the server that was found, to the replicas."""
    os.environ["BUS_URL"] = url
    for info in SETTINGS:
        if info.attribute in shell.typed:
            os.environ[info.env] = shell.typed[info.attribute]
    os.environ.pop(HOLDER_VARIABLE, None)


@asynccontextmanager
async def _ending_with_stdin(*, wanted: bool) -> AsyncGenerator[None]:
    """Stop, as SIGTERM does, once whoever holds the other end of standard input is gone.

    A process that is killed with SIGKILL cannot stop its agents: this does.
    """
    if not wanted:
        yield
        return
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )

    async def watch() -> None:
        while await reader.read(1024):
            continue
        os.kill(os.getpid(), signal.SIGTERM)
        # The server may be gone too, and then there is nobody to say goodbye to.
        loop.call_later(_LAST_MOMENTS_S, os._exit, 0)

    task = asyncio.create_task(watch(), name="threadbus.cli.stdin")
    try:
        yield
    finally:
        task.cancel()
        transport.close()

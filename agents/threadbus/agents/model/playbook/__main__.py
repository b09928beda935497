"""Run a playbook server: ``python -m threadbus.agents.model.playbook FILE --port 8000``.

The first line on standard output is the base URL. SIGTERM and Ctrl-C end it with exit code 0;
a playbook or an address that cannot be used ends it with 2.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from threadbus.agents.errors import AgentError
from threadbus.agents.model.playbook.book import load_playbook
from threadbus.agents.model.playbook.server import PlaybookServer


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m threadbus.agents.model.playbook",
        description="Serve a playbook as an OpenAI-compatible server; no model is asked.",
    )
    parser.add_argument("file", help="the playbook, a TOML file")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port; 0 picks a free one (default)")
    parser.add_argument("--check", action="store_true", help="check the file and end")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            book = load_playbook(options.file)
            _say(f"{book.file}: {len(book.play)} plays, nothing wrong")
            return 0
        asyncio.run(_serve(options.file, options.host, options.port))
    except AgentError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


async def _serve(file: str, host: str, port: int) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with PlaybookServer(file, host=host, port=port) as server:
        book = server.playbook
        _say(server.base_url)
        _say(f"playbook server: answers come from {book.file} ({len(book.play)} plays)")
        _say("no model is asked; use it with OPENAI_BASE_URL and BUS_MODEL=playbook")
        await stopped.wait()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

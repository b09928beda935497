"""What every command has at hand: the settings, where to print, and the way to the bus."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, TextIO

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from threadbus.agents.cli.streams import NotingConsole, PipedConsole
from threadbus.agents.cli.text import neutral, neutral_lines
from threadbus.bus import SETTINGS, Bus, BusError, BusSettings, connect, server

_PIPED_WIDTH: Final = 400
_NARROW: Final = 20
_ASCII: Final = {"→": "->", "✓": "ok", "✗": "x", "·": "-", "…": "...", "●": "*", "○": "o"}


class Shell:
    """One run of one command."""

    def __init__(
        self,
        typed: Mapping[str, str],
        *,
        json: bool = False,
        color: bool = True,
    ) -> None:
        """Prepare to print; nothing is opened.

        Args:
            typed: settings that were given as flags, by attribute.
            json: print a struct instead of text.
            color: whether colours may be used where the terminal has them.
        """
        self.typed = dict(typed)
        self.json = json
        no_color = True if not color else None
        for stream in (sys.stdout, sys.stderr):
            _be_ready_for_any_text(stream)
        self.out = PipedConsole(no_color=no_color, highlight=False, markup=False, emoji=False)
        self.err = NotingConsole(
            stderr=True, no_color=no_color, highlight=False, markup=False, emoji=False
        )
        self.detach_hint = ""
        """What Ctrl-C says, while there is something to come back to."""

    # settings

    def settings(self) -> BusSettings:
        """Return the settings: flags, then variables, then a running `bus up`, then defaults.

        Raises:
            InvalidSettingError: one cannot be used.
        """
        overrides: dict[str, str | None] = dict(self.typed)
        found = self.source_of("url")
        if found == "bus up" and (url := running_url()) is not None:
            overrides["url"] = url
        return BusSettings.from_env(None, **overrides)

    def source_of(self, attribute: str) -> str:
        """Return where a setting comes from: ``flag``, ``environment``, ``bus up``, ``default``."""
        import os

        (info,) = (info for info in SETTINGS if info.attribute == attribute)
        if attribute in self.typed:
            return "flag"
        if os.environ.get(info.env):
            return "environment"
        if attribute == "url" and running_url() is not None:
            return "bus up"
        return "default"

    @asynccontextmanager
    async def bus(self, *, ensure: bool = True) -> AsyncGenerator[Bus]:
        """Open the bus under the name in the settings.

        Raises:
            ConnectError: there is no usable server.
        """
        async with connect(self.settings(), ensure=ensure) as bus:
            yield bus

    # printing

    def symbol(self, character: str) -> str:
        """Return *character*, or what stands for it where the terminal cannot show it."""
        if (self.out.encoding or "").lower().startswith("utf"):
            return character
        return _ASCII.get(character, character)

    def result(self, value: msgspec.Struct) -> None:
        """Print a struct as one line of JSON."""
        sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
        sys.stdout.flush()

    def table(self, shown: Table) -> None:
        """Print a table; piped, each row is one line without blanks at its end."""
        if self.out.is_terminal:
            self.out.print(shown)
            return
        # The width that is given to `print` is taken as far as the console is wide.
        width, self.out.width = self.out.width, _PIPED_WIDTH
        try:
            with self.out.capture() as capture:
                self.out.print(shown)
        finally:
            self.out.width = width
        lines = (line.rstrip() for line in capture.get().splitlines())
        self.out.out("\n".join(lines), highlight=False)

    def say(self, text: str | Text = "", style: str = "") -> None:
        """Print to standard output; *text* may hold what others wrote."""
        _print(self.out, text, style)

    def paragraph(self, label: Text, text: str, style: str = "") -> None:
        """Print *label* and, beside it, *text*: wrapped beside it on a terminal, else one line."""
        width = self.out.width - label.cell_len
        words = Text(neutral(text), style)
        wide = not self.out.is_terminal or width < _NARROW
        lines = [words] if wide else list(words.wrap(self.out, width))
        for number, line in enumerate(lines):
            line.rstrip()
            start = Text(" " * label.cell_len) if number else label
            self.out.print(Text.assemble(start, line), soft_wrap=True)

    def answer(self, text: str) -> None:
        """Print the answer of a team: wrapped between words on a terminal, as it is when piped."""
        self.out.print(Text(neutral_lines(text)), soft_wrap=not self.out.is_terminal)

    def note(self, text: str | Text = "", style: str = "") -> None:
        """Print to standard error, as everything that is not the result of the command."""
        _print(self.err, text, style)

    def error(self, text: str) -> None:
        """Print an error to standard error: one line, or a few."""
        shown = Text("bus: ", "bold red")
        shown.append(neutral_lines(text), "default not bold")
        self.err.print(shown, soft_wrap=True)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """Make a table that is plain when piped: no frame, a bold head."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def cell(text: str, style: str = "") -> Text:
    """Make a cell of what others wrote."""
    return Text(neutral(text), style)


def running_url() -> str | None:
    """Return the URL of a server that this user keeps running with `bus up`."""
    try:
        state = server.read_state()
    except BusError:
        return None
    return None if state is None else state.url


def _print(console: Console, text: str | Text, style: str) -> None:
    shown = Text(neutral_lines(text)) if isinstance(text, str) else text
    console.print(shown, style=style or None, soft_wrap=True)


def _be_ready_for_any_text(stream: TextIO) -> None:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")

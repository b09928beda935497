"""A playbook: what to answer to whom at which step. docs/playbooks.md explains the file format."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Final

import msgspec

from threadbus.agents.errors import PlaybookFormatError
from threadbus.agents.model.playbook.template import check_template, check_templates

FORMAT: Final = 1
MAX_PLAYBOOK_BYTES: Final = 4 * 1024 * 1024
MAX_PLAYS: Final = 10_000
MAX_DELAY_MS: Final = 600_000

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Natural = Annotated[int, msgspec.Meta(ge=0)]
_Delay = Annotated[int, msgspec.Meta(ge=0, le=MAX_DELAY_MS)]
_ToolName = Annotated[str, msgspec.Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]


class CallPlay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call to make; every string in the arguments is a template."""

    tool: _ToolName
    arguments: dict[str, object] = {}
    raw_arguments: str | None = None
    """Sent as it is instead of *arguments*: for arguments that are not JSON."""

    def __post_init__(self) -> None:
        if self.arguments and self.raw_arguments is not None:
            raise ValueError("a call has either arguments or raw_arguments")
        check_templates(self.arguments)


class FailPlay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A failure to show instead of an answer, or in the middle of one."""

    status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    """Answer with this HTTP status."""
    message: str = "the playbook says that this request fails"
    retry_after: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Seconds, sent as ``Retry-After``."""
    cut_after: _Natural | None = None
    """Close the connection after this many characters of the body (of the text, in a stream)."""
    garbage: bool = False
    """Answer with something that is not JSON."""

    def __post_init__(self) -> None:
        kinds = (self.status is not None) + (self.cut_after is not None) + self.garbage
        if kinds != 1:
            raise ValueError("fail has exactly one of status, cut_after and garbage")
        if self.status is None and self.retry_after is not None:
            raise ValueError("retry_after belongs to a status")


class UsagePlay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Token counts to report instead of those that the rule gives."""

    input: _Natural = 0
    output: _Natural = 0
    cached: _Natural = 0


class Play(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry: when it is due, and what it answers."""

    name: str = ""
    """For error messages."""
    agent: str | list[str] | None = None
    """Who asks: one of these."""
    step: _Positive | None = None
    """The how-manieth answer since the last user message; 1 is the first."""
    turn: _Positive | None = None
    """The how-manieth answer of the whole conversation; 1 is the first."""
    when: str | None = None
    """A regular expression that is found in the last message; ``{{ match.1 }}`` is its group."""
    find: dict[str, str] = {}
    """Name → regular expression that is found in some message; the newest one counts."""
    after_tool: _ToolName | None = None
    """The last message is a result of this tool."""
    times: _Positive | None = None
    """How often the play may be used while the server runs."""

    text: str | None = None
    """A template."""
    call: list[CallPlay] = []
    """Tool calls to make."""
    fail: FailPlay | None = None
    finish_reason: str = ""
    """Instead of ``stop`` or ``tool_calls``."""
    usage: UsagePlay | bool = True
    """``false`` reports none, as some servers do in streams."""
    delay_ms: _Delay | None = None
    """Milliseconds before the answer starts."""
    chunk_chars: _Positive | None = None
    """Characters of one chunk of a stream."""
    chunk_delay_ms: _Delay | None = None
    """Milliseconds before each further chunk."""

    def __post_init__(self) -> None:
        for pattern in (*([self.when] if self.when is not None else ()), *self.find.values()):
            try:
                re.compile(pattern)
            except (re.error, RecursionError, OverflowError) as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        if self.text is None and not self.call and self.fail is None:
            raise ValueError("the play says nothing: give it text, a [[play.call]] or [play.fail]")
        check_template(self.text or "")

    @property
    def agents(self) -> list[str]:
        """Who may ask; empty for everyone."""
        if self.agent is None:
            return []
        return [self.agent] if isinstance(self.agent, str) else self.agent


class Defaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a play does not say itself."""

    delay_ms: _Delay = 0
    chunk_chars: _Positive = 24
    chunk_delay_ms: _Delay = 0


class Playbook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every play, in the order in which they are tried."""

    play: Annotated[list[Play], msgspec.Meta(min_length=1, max_length=MAX_PLAYS)]
    format: int = FORMAT
    title: str = ""
    defaults: Defaults = Defaults()
    file: str = "(no file)"
    """Where it came from, for messages."""

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format} is not known, only {FORMAT}")

    def label(self, index: int) -> str:
        """Return what messages call the play at *index*."""
        name = self.play[index].name
        return f"play {index + 1}" + (f" ({name})" if name else "")


def load_playbook(path: Path | str) -> Playbook:
    """Read and check a playbook file.

    Raises:
        PlaybookFormatError: it cannot be read, is not TOML or breaks the format.
    """
    file = str(path)
    try:
        with Path(path).open("rb") as opened:
            content = opened.read(MAX_PLAYBOOK_BYTES + 1)
    except OSError as error:
        reason = f"it cannot be read ({error.strerror or error})"
        raise PlaybookFormatError(file, "", reason) from error
    if len(content) > MAX_PLAYBOOK_BYTES:
        raise PlaybookFormatError(file, "", f"it has more than {MAX_PLAYBOOK_BYTES:,} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise PlaybookFormatError(file, "", f"it is not UTF-8 ({error})") from error
    return parse_playbook(text, file)


def parse_playbook(text: str, file: str = "(no file)") -> Playbook:
    """Check a playbook that is given as TOML.

    Raises:
        PlaybookFormatError: it is not TOML or breaks the format.
    """
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PlaybookFormatError(file, "", f"it is not TOML: {error}") from error
    if "file" in raw:
        raise PlaybookFormatError(file, "", "Object contains unknown field `file`")
    try:
        return msgspec.convert({**raw, "file": file}, Playbook)
    except (msgspec.ValidationError, RecursionError) as error:
        reason, _, path = str(error).partition(" - at ")
        raise PlaybookFormatError(file, _place(path), reason) from error


def _place(path: str) -> str:
    """Return where *path* (``$.play[1].step``) is, counted as people do."""
    match = re.match(r"`\$\.play\[(\d+)\]\.?(.*)`", path)
    if match is None:
        return path.strip("`$.")
    return f"play {int(match.group(1)) + 1}" + (f", {match.group(2)}" if match.group(2) else "")

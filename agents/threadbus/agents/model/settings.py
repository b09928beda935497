"""Which server and model to ask, and how long to try."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

import msgspec

from threadbus.agents.errors import InvalidSettingError

_MODEL_OF_AGENT: Final = "BUS_MODEL_"
_OPENAI_HOST: Final = "api.openai.com"


class Secret:
    """A value that neither ``repr`` nor an encoder shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value."""
        return self._value

    def hide_in(self, text: str) -> str:
        """Return *text* with the value blotted out."""
        return text.replace(self._value, "[key]") if self._value else text

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret(…)" if self._value else "Secret()"


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where models are, and the bounds of one call. :meth:`from_env` names the variables."""

    model: str = ""
    """The model that an agent without an entry in *agent_models* uses."""
    agent_models: dict[str, str] = {}
    """Agent's name in upper case, with ``_`` for ``-`` → its model."""
    base_url: str = ""
    """Of an OpenAI-compatible server, usually ending in ``/v1``; empty for OpenAI's own."""
    api_key: Secret = Secret()
    """May be empty where *base_url* is a server that asks for none."""
    timeout: timedelta = timedelta(seconds=120)
    """For one attempt, from its start to the last token."""
    deadline: timedelta = timedelta(seconds=300)
    """For one call with all its attempts and the waits between them."""
    connect_timeout: timedelta = timedelta(seconds=10)
    max_retries: int = 4
    """Attempts after the first; 0 to 20."""
    backoff: timedelta = timedelta(seconds=0.5)
    """The longest first wait before another attempt; it doubles each time, up to 20 s."""
    max_wait: timedelta = timedelta(seconds=60)
    """The longest wait that a server may ask for (``Retry-After``); a longer one ends the call."""
    max_output_tokens: int | None = None
    """Tokens that one answer may have; ``None`` leaves it to the server."""
    max_output_chars: int = 1_000_000
    """Characters of text and tool arguments that are taken from one answer."""
    max_tool_calls: int = 64
    """Tool calls that are taken from one answer."""

    def __post_init__(self) -> None:
        if self.base_url:
            _check_url(self.base_url)
        for name, least, most in (
            ("max_retries", 0, 20),
            ("max_output_chars", 1, 100_000_000),
            ("max_tool_calls", 1, 1_000),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise InvalidSettingError(name, str(value), f"it must be {least:,} to {most:,}")
        if self.max_output_tokens is not None and self.max_output_tokens < 1:
            raise InvalidSettingError(
                "max_output_tokens", str(self.max_output_tokens), "it must be 1 or more"
            )
        for name in ("timeout", "deadline", "connect_timeout", "backoff", "max_wait"):
            span = getattr(self, name)
            if not timedelta(0) < span <= timedelta(days=1):
                raise InvalidSettingError(name, str(span), "it must be over 0 s, at most a day")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> ModelSettings:
        """Read the settings from environment variables; one that is empty counts as not set.

        ``OPENAI_API_KEY``, ``OPENAI_BASE_URL``
            The key, and a server other than OpenAI's.
        ``BUS_MODEL``, ``BUS_MODEL_<AGENT>``
            The model of every agent, and that of one agent (``BUS_MODEL_DATA_READER`` for
            ``data-reader``).
        ``BUS_COMPLETION_TIMEOUT``, ``BUS_COMPLETION_DEADLINE``
            Seconds for one attempt, and for one call with all its attempts.
        ``BUS_COMPLETION_RETRIES``, ``BUS_COMPLETION_MAX_TOKENS``
            Attempts after the first, and tokens that one answer may have.

        Raises:
            InvalidSettingError: a variable cannot be used.
        """
        env = {name: value.strip() for name, value in environ.items() if value.strip()}
        agent_models = {
            name.removeprefix(_MODEL_OF_AGENT): value
            for name, value in env.items()
            if name.startswith(_MODEL_OF_AGENT) and name != _MODEL_OF_AGENT
        }
        base_url = env.get("OPENAI_BASE_URL", "")
        if base_url:
            _check_url(base_url, "OPENAI_BASE_URL")
        return cls(
            model=env.get("BUS_MODEL", ""),
            agent_models=agent_models,
            base_url=base_url,
            api_key=Secret(env.get("OPENAI_API_KEY", "")),
            timeout=_seconds(env, "BUS_COMPLETION_TIMEOUT", 120),
            deadline=_seconds(env, "BUS_COMPLETION_DEADLINE", 300),
            max_retries=_whole(env, "BUS_COMPLETION_RETRIES", 4, 0, 20),
            max_output_tokens=_whole(env, "BUS_COMPLETION_MAX_TOKENS", 0, 1, 100_000_000) or None,
        )

    def model_for(self, agent: str) -> str:
        """Return the name of the model that *agent* uses.

        Raises:
            InvalidSettingError: no model is named for it.
        """
        model = self.agent_models.get(agent.upper().replace("-", "_")) or self.model
        if not model:
            raise InvalidSettingError(
                "BUS_MODEL",
                "",
                "name the model to ask, for every agent with BUS_MODEL "
                "or for one with BUS_MODEL_<AGENT>",
            )
        return model

    @property
    def server(self) -> str:
        """The host (and port) that is asked, for messages: never a key or a password."""
        parts = urlsplit(self.base_url)
        if not parts.hostname:
            return _OPENAI_HOST
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return f"{host}:{parts.port}" if parts.port else host

    @property
    def is_openai(self) -> bool:
        """Whether OpenAI's own server is asked."""
        return self.server == _OPENAI_HOST

    def __repr__(self) -> str:
        return (
            f"ModelSettings(model={self.model!r}, agent_models={self.agent_models!r}, "
            f"server={self.server!r}, api_key={self.api_key!r}, timeout={self.timeout}, "
            f"deadline={self.deadline}, max_retries={self.max_retries}, "
            f"max_output_tokens={self.max_output_tokens})"
        )


def _check_url(url: str, setting: str = "base_url") -> None:
    expected = "an address such as http://127.0.0.1:8000/v1"
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise InvalidSettingError(setting, url.rpartition("@")[2], expected)


def _seconds(env: Mapping[str, str], name: str, default: float) -> timedelta:
    text = env.get(name, str(default))
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 < value <= 86_400:
        raise InvalidSettingError(name, text, "a number of seconds over 0, at most 86,400")
    return timedelta(seconds=value)


def _whole(env: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = env.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise InvalidSettingError(name, text, f"a whole number from {least:,} to {most:,}")
    return value

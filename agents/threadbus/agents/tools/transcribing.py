"""Have recordings put into words by an endpoint that speaks OpenAI's ``/audio/transcriptions``.

Without one they are heard on this machine, see :mod:`.parsing.sound`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from threadbus.agents.errors import InvalidSettingError
from threadbus.agents.tools.errors import TranscriptionError
from threadbus.schemas import shorten

MODEL_VARIABLE: Final = "BUS_TRANSCRIPTION_MODEL"
URL_VARIABLE: Final = "BUS_TRANSCRIPTION_URL"
_TIMEOUT_S: Final = 300.0
_MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024


class Transcriber(Protocol):
    """Puts sound into words."""

    async def transcribe(self, name: str, sound: bytes) -> str:
        """Return what is said in a WAV file; *name* is for messages.

        Raises:
            TranscriptionError: there is no transcript.
        """
        ...


class _Answer(msgspec.Struct):
    text: str


class OpenAITranscriber:
    """Transcripts from an endpoint that speaks OpenAI's ``/audio/transcriptions``."""

    def __init__(self, model: str, *, base_url: str = "", api_key: str = "") -> None:
        """Name the model; nothing is opened before the first call.

        Args:
            model: its name.
            base_url: a server other than OpenAI's.
            api_key: the key.
        """
        self._model = model
        self._base_url = base_url
        self._api_key = api_key

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> OpenAITranscriber | None:
        """Read the variables; None where ``BUS_TRANSCRIPTION_MODEL`` names no model.

        The server is ``BUS_TRANSCRIPTION_URL``, or that of ``OPENAI_BASE_URL``; the key is
        ``OPENAI_API_KEY``.

        Raises:
            InvalidSettingError: the address cannot be one.
        """
        model = environ.get(MODEL_VARIABLE, "").strip()
        if not model:
            return None
        own = environ.get(URL_VARIABLE, "").strip()
        if own and not own.startswith(("http://", "https://")):
            raise InvalidSettingError(
                URL_VARIABLE, own, "it is an address such as http://127.0.0.1:8000/v1"
            )
        return cls(
            model,
            base_url=own or environ.get("OPENAI_BASE_URL", "").strip(),
            api_key=environ.get("OPENAI_API_KEY", "").strip(),
        )

    async def transcribe(self, name: str, sound: bytes) -> str:
        """Return what is said in a WAV file.

        Raises:
            TranscriptionError: the endpoint gives no transcript.

        Cancellation: ends the call.
        """
        # Here, since it takes more memory than an agent that waits has otherwise.
        from openai import AsyncOpenAI, OpenAIError

        answer = bytearray()
        try:
            async with (
                AsyncOpenAI(
                    api_key=self._api_key or "none",
                    base_url=self._base_url or None,
                    timeout=_TIMEOUT_S,
                    max_retries=2,
                ) as client,
                client.audio.transcriptions.with_streaming_response.create(
                    model=self._model,
                    file=("sound.wav", sound, "audio/wav"),
                    response_format="json",
                ) as response,
            ):
                async for chunk in response.iter_bytes():
                    answer += chunk
                    if len(answer) > _MAX_ANSWER_BYTES:
                        reason = f"its answer has more than {_MAX_ANSWER_BYTES:,} bytes"
                        raise TranscriptionError(name, self._model, reason)
            return msgspec.json.decode(bytes(answer), type=_Answer).text
        except (OpenAIError, msgspec.DecodeError, OSError) as error:
            reason = shorten(str(error), 300).replace(self._api_key or "\0", "[key]")
            raise TranscriptionError(name, self._model, reason) from error

"""Recordings and films with real speech, heard here or by an endpoint; and what they may not do."""

from __future__ import annotations

import asyncio
import email
import io
import json
import sys
import wave
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from email.message import Message
from typing import cast

import pytest

from tests.support.sound_files import SPEECH, make_recording, make_silent_film
from threadbus.agents.errors import InvalidSettingError
from threadbus.agents.tools import (
    CorruptDocumentError,
    Document,
    DocumentKind,
    DocumentLimits,
    DocumentTimeoutError,
    DocumentTooLargeError,
    EncryptedDocumentError,
    MissingExtraError,
    NamedBytes,
    OpenAITranscriber,
    Transcriber,
    TranscriptionError,
    read_document,
)
from threadbus.agents.tools.parsing import worker
from threadbus.agents.tools.parsing.model import Parsed, Problem, Refusal
from threadbus.agents.tools.parsing.sniff import document_kind

SAID = "team found the answer"
PROTECTION = {
    "encryption_scheme": "cenc-aes-ctr",
    "encryption_key": "76a6c65c5ea762046bd749a2e632ccbb",
    "encryption_kid": "a7e61c373e219033c21091fa607bf3b8",
}


def read(
    name: str,
    content: bytes,
    limits: DocumentLimits | None = None,
    transcriber: Transcriber | None = None,
) -> Document:
    reading = read_document(
        NamedBytes(name, content), limits or DocumentLimits(), transcriber=transcriber
    )
    return asyncio.run(reading)


def heard(kind: DocumentKind, content: bytes, limits: DocumentLimits | None = None) -> Parsed:
    """Hear in this process, for forms that need no process of their own."""
    parsed = worker.parse(kind, content, limits or DocumentLimits())
    assert isinstance(parsed, Parsed)
    return parsed


def test_what_a_recording_says_is_read() -> None:
    """Speech becomes a transcript with times, and the reader is told how it was heard."""
    document = read("talk.wav", SPEECH)
    assert (document.kind, document.title) == (DocumentKind.AUDIO, "talk")
    (section,) = document.sections
    assert section.title == "Transcript"
    assert section.text.startswith("[0:00] ")
    assert section.text.endswith(SAID)
    assert document.notes == (
        "heard by PocketSphinx, which knows English only and mishears much",
        "0:01 of sound, put into words by a program",
    )


def test_what_a_film_says_is_read() -> None:
    """The sound of a film is heard in the bounded process too; its pictures are not looked at."""
    document = read("talk.mp4", make_recording("mp4", "aac", film=True))
    assert document.kind is DocumentKind.VIDEO
    assert document.sections[0].text.endswith(SAID)


@pytest.mark.parametrize(
    ("name", "container", "codec"),
    [
        ("talk.mp3", "mp3", "libmp3lame"),
        ("talk.ogg", "ogg", "libopus"),
        ("talk.flac", "flac", "flac"),
        ("talk.m4a", "ipod", "aac"),
        ("talk.aac", "adts", "aac"),
        ("talk.aiff", "aiff", "pcm_s16be"),
        ("talk.webm", "webm", "libopus"),
        ("talk.avi", "avi", "libmp3lame"),
    ],
)
def test_every_container_is_heard(name: str, container: str, codec: str) -> None:
    """The kind is told by the content, whatever the codec."""
    content = make_recording(container, codec)
    kind = document_kind(name, content)
    assert kind.is_heard
    assert document_kind("talk", content).is_heard
    assert heard(kind, content).sections[0].text.endswith(SAID)


def test_a_film_without_sound_says_so() -> None:
    """A film without sound is no error: its reader is told."""
    parsed = heard(DocumentKind.VIDEO, make_silent_film())
    assert parsed.sections == ()
    assert parsed.notes == ("it has no sound; pictures of a film are not looked at",)


def test_silence_is_told() -> None:
    """A recording in which nobody speaks has no transcript, and says so."""
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setparams((1, 2, 8_000, 0, "NONE", ""))
        file.writeframes(bytes(32_000))
    parsed = heard(DocumentKind.AUDIO, written.getvalue())
    assert parsed.sections == ()
    assert "no speech was heard" in parsed.notes


def test_a_long_recording_is_heard_up_to_the_limit() -> None:
    """What is left out is told in the notes and at the end."""
    document = read(
        "long.flac",
        make_recording("flac", "flac", times=4),
        DocumentLimits(duration=timedelta(seconds=3)),
    )
    assert "only the first 0:03 of 0:07 were heard" in document.notes
    assert document.truncated
    assert document.render().endswith("[truncated: at least an unknown part left out]\n")


def test_hearing_ends_in_time() -> None:
    """Too slow a machine gives what was heard so far; a hang is ended, with the setting."""
    limits = DocumentLimits(model_time=timedelta(microseconds=1))
    parsed = heard(DocumentKind.AUDIO, SPEECH, limits)
    assert not parsed.omitted.exact
    assert any(note.startswith("only the first 0:0") for note in parsed.notes)
    limits = DocumentLimits(model_time=timedelta(milliseconds=50))
    with pytest.raises(DocumentTimeoutError, match=r"DocumentLimits\.model_time"):
        read("talk.wav", SPEECH, limits)


def test_an_encrypted_film_is_refused() -> None:
    """A film whose tracks are encrypted is told as such."""
    film = make_recording("mp4", "aac", film=True, options=PROTECTION)
    with pytest.raises(EncryptedDocumentError, match=r"'film\.mp4' is an encrypted VIDEO document"):
        read("film.mp4", film)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("head.mp3", b"ID3\x04" + bytes(50)),
        ("noise.mp4", b"\0\0\0\x1cftypisom" + bytes(range(256)) * 8),
        ("empty.wav", SPEECH[:44]),
        ("cut.flac", make_recording("flac", "flac")[:60]),
    ],
    ids=["mp3", "mp4", "wav", "flac"],
)
def test_a_broken_recording_is_refused(name: str, content: bytes) -> None:
    """What cannot be decoded is told with a reason."""
    with pytest.raises(CorruptDocumentError, match=f"'{name}' is not a readable"):
        read(name, content)


def test_a_playlist_in_disguise_opens_nothing() -> None:
    """Only files that carry their sound themselves are opened: a playlist would name others."""
    for playlist in (
        b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n",
        b"ffconcat version 1.0\nfile /etc/passwd\n",
    ):
        refusal = worker.parse(DocumentKind.AUDIO, playlist, DocumentLimits())
        assert isinstance(refusal, Refusal)
        assert refusal.problem is Problem.CORRUPT


def test_a_huge_recording_is_refused() -> None:
    """The size of the file is checked before it is opened, the memory while it is heard."""
    with pytest.raises(DocumentTooLargeError, match=r"over the limit of 1,000; .*file_bytes"):
        read("talk.wav", SPEECH, DocumentLimits(file_bytes=1000))


def test_without_the_extra_the_command_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a library is missing, the message says what to install."""
    for library in ("pocketsphinx", "av"):
        monkeypatch.setitem(sys.modules, library, None)
        refusal = worker.parse(DocumentKind.AUDIO, SPEECH, DocumentLimits())
        assert refusal == Refusal(problem=Problem.MISSING_LIBRARY, reason="av and pocketsphinx")
    told = str(MissingExtraError("talk.wav", "audio", "av and pocketsphinx"))
    assert told.endswith("needs av and pocketsphinx; pip install 'threadbus[transcripts]'")


Answer = Callable[[dict[str, bytes]], tuple[int, bytes]]


@asynccontextmanager
async def endpoint(answer: Answer) -> AsyncGenerator[str]:
    """Serve ``/v1/audio/transcriptions``: the fields of each form go to *answer*."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        fields = {
            name.lower(): value
            for name, _, value in (
                line.partition(": ") for line in head.decode().splitlines()[1:] if line
            )
        }
        body = await reader.readexactly(int(fields["content-length"]))
        form = email.message_from_bytes(
            f"content-type: {fields['content-type']}\r\n\r\n".encode() + body
        )
        parts = cast("list[Message]", form.get_payload())
        status, said = answer(
            {
                str(part.get_param("name", header="content-disposition")): cast(
                    "bytes", part.get_payload(decode=True)
                )
                for part in parts
            }
        )
        assert head.startswith(b"POST /v1/audio/transcriptions ")
        writer.write(f"HTTP/1.1 {status} X\r\nconnection: close\r\n".encode())
        writer.write(b"content-type: application/json\r\n")
        writer.write(b"content-length: %d\r\n\r\n%s" % (len(said), said))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def test_an_endpoint_hears_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the variables name a model, it gets the sound as WAV, and its words are returned."""
    models: list[bytes] = []

    def answer(fields: dict[str, bytes]) -> tuple[int, bytes]:
        models.append(fields["model"])
        # The same model behind the wire of another: the sound arrives whole.
        found = heard(DocumentKind.AUDIO, fields["file"]).sections[0].text
        return 200, json.dumps({"text": found.partition("] ")[2]}).encode()

    film = NamedBytes("talk.mp4", make_recording("mp4", "aac", film=True))
    async with endpoint(answer) as url:
        monkeypatch.setenv("BUS_TRANSCRIPTION_MODEL", "small")
        monkeypatch.setenv("BUS_TRANSCRIPTION_URL", url)
        document = await read_document(film)

    assert models == [b"small"]
    assert document.sections[0].text.endswith(SAID)
    assert document.notes == ("0:01 of sound, put into words by a program",)


@pytest.mark.parametrize(
    ("status", "body"),
    [(400, b'{"error": "no such model"}'), (200, b"<html>"), (200, b'{"text": 1}')],
)
async def test_an_endpoint_without_a_transcript_is_a_clear_error(status: int, body: bytes) -> None:
    """Refusals and answers of another form name the model and the variables."""
    async with endpoint(lambda _: (status, body)) as url:
        with pytest.raises(TranscriptionError, match=r"by 'small': .*BUS_TRANSCRIPTION_MODEL"):
            await OpenAITranscriber("small", base_url=url).transcribe("talk.wav", SPEECH)


async def test_an_endless_answer_is_cut_off() -> None:
    """No more of an answer is taken than a transcript can have."""
    async with endpoint(lambda _: (200, b'{"text": "' + b"x" * 5_000_000)) as url:
        with pytest.raises(TranscriptionError, match="more than 4,194,304 bytes"):
            await OpenAITranscriber("small", base_url=url).transcribe("talk.wav", SPEECH)


def test_the_variables_name_the_endpoint() -> None:
    """No model: no endpoint; an address that is none is refused."""
    assert OpenAITranscriber.from_env({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}) is None
    assert OpenAITranscriber.from_env({"BUS_TRANSCRIPTION_MODEL": "small"}) is not None
    with pytest.raises(InvalidSettingError, match="BUS_TRANSCRIPTION_URL"):
        OpenAITranscriber.from_env(
            {"BUS_TRANSCRIPTION_MODEL": "small", "BUS_TRANSCRIPTION_URL": "127.0.0.1"}
        )

"""Hear a recording or a film: decoded by PyAV, put into words by PocketSphinx or an endpoint.

The first 30 minutes (``DocumentLimits.duration``) are decoded to 16,000 samples a second. They
are heard here, by the English model that PocketSphinx carries, or written to WAV files, which the
agent has an endpoint hear: this process has no network.
"""

from __future__ import annotations

import importlib
import io
import re
import time
import wave
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final, Protocol, cast

from threadbus.agents.tools.parsing.budget import Budget, refuse
from threadbus.agents.tools.parsing.model import DocumentLimits, Parsed, Problem, Section

RATE: Final = 16_000
"""Samples a second, of two bytes each."""
PIECE: Final = timedelta(minutes=10)
"""How much goes into one WAV file: below the 25 MB that endpoints take."""
MOST_PIECES: Final = 36

_SAMPLE_BYTES: Final = 2
_TIME_SHARE: Final = 0.7
"""The share of the time limit after which hearing ends where it is."""
# Only files that carry their sound themselves: a playlist would have other files opened.
_FORMATS: Final = "wav,w64,mp3,aac,ogg,flac,aiff,mov,matroska,avi"
_PROTECTED: Final = re.compile(rb"sinf.{4}frma", re.DOTALL)
"""How a track of an MP4 file says that it is encrypted."""


class _Frame(Protocol):
    """Sound, as PyAV has it."""

    samples: int
    planes: tuple[bytes, ...]


class _Resampler(Protocol):
    def resample(self, frame: _Frame | None) -> list[_Frame]: ...


class _Streams(Protocol):
    audio: list[object]


class _Container(Protocol):
    duration: int | None
    streams: _Streams

    def decode(self, *, audio: int) -> Iterator[_Frame]: ...
    def close(self) -> None: ...


class _Av(Protocol):
    """The library PyAV."""

    time_base: int

    def open(self, file: io.BytesIO, *, options: dict[str, str]) -> _Container: ...
    def AudioResampler(self, *, format: str, layout: str, rate: int) -> _Resampler: ...  # noqa: A002, N802


def parse_sound(data: bytes, budget: Budget, limits: DocumentLimits, pieces: int) -> Parsed:
    """Return what is said, with times; or where the sound was written to, where *pieces* says so.

    Args:
        data: a recording or film.
        budget: takes the text.
        limits: how much is heard.
        pieces: at most so many WAV files are written; 0: it is heard here.
    """
    # The optional library: its absence is told to the user, see the worker.
    av = cast("_Av", importlib.import_module("av"))
    if pieces == 0:
        importlib.import_module("pocketsphinx")
    if _PROTECTED.search(data):
        refuse(Problem.ENCRYPTED)
    container = av.open(io.BytesIO(data), options={"format_whitelist": _FORMATS})
    try:
        if not container.streams.audio:
            budget.note("it has no sound; pictures of a film are not looked at")
            return budget.parsed()
        whole = (container.duration or 0) / av.time_base
        sound = _Sound(av, container, limits.duration)
        names: tuple[str, ...] = ()
        if pieces:
            names = _write(sound, pieces)
        else:
            _hear(sound, budget, limits)
    finally:
        container.close()
    if sound.heard == 0:
        refuse(Problem.CORRUPT, "no sound could be decoded")
    of = f" of {_clock(whole)}" if whole >= sound.heard else ""
    if sound.is_cut:
        budget.lose_unknown()
        budget.note(f"only the first {_clock(sound.heard)}{of} were heard")
    else:
        budget.note(f"{_clock(sound.heard)} of sound, put into words by a program")
    parsed = budget.parsed()
    return Parsed(
        sections=parsed.sections, notes=parsed.notes, omitted=parsed.omitted, pieces=names
    )


class _Sound:
    """The samples of a recording, up to a limit."""

    def __init__(self, av: _Av, container: _Container, limit: timedelta) -> None:
        self._resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
        self._container = container
        self._most = int(limit.total_seconds() * RATE)
        self._taken = 0
        self.is_cut = False

    @property
    def heard(self) -> float:
        """Seconds so far."""
        return self._taken / RATE

    def samples(self) -> Iterator[bytes]:
        """Yield the samples in pieces of any size."""
        for frame in self._frames():
            room = self._most - self._taken
            if room <= 0:
                self.is_cut = True
                return
            kept = min(room, frame.samples)
            self.is_cut = kept < frame.samples
            self._taken += kept
            yield bytes(frame.planes[0])[: kept * _SAMPLE_BYTES]

    def blocks(self, size: int) -> Iterator[bytes]:
        """Yield the samples in blocks of *size* bytes; the last one may be shorter."""
        held = bytearray()
        for samples in self.samples():
            held += samples
            while len(held) >= size:
                yield bytes(held[:size])
                del held[:size]
        if held:
            yield bytes(held)

    def cut(self) -> None:
        """Say that there is more than was heard."""
        self.is_cut = True

    def _frames(self) -> Iterator[_Frame]:
        for frame in self._container.decode(audio=0):
            yield from self._resampler.resample(frame)
        yield from self._resampler.resample(None)


def _write(sound: _Sound, pieces: int) -> tuple[str, ...]:
    names: list[str] = []
    for block in sound.blocks(int(PIECE.total_seconds()) * RATE * _SAMPLE_BYTES):
        if len(names) >= pieces:
            sound.cut()
            break
        names.append(f"sound-{len(names)}.wav")
        with wave.open(names[-1], "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(_SAMPLE_BYTES)
            file.setframerate(RATE)
            file.writeframes(block)
    return tuple(names)


class _Hypothesis(Protocol):
    hypstr: str


class _Decoder(Protocol):
    def start_utt(self) -> None: ...
    def process_raw(self, data: bytes, no_search: bool, full_utt: bool) -> object: ...
    def end_utt(self) -> None: ...
    def hyp(self) -> _Hypothesis | None: ...


class _Endpointer(Protocol):
    """Tells where speech begins and ends."""

    frame_bytes: int
    in_speech: bool
    speech_start: float

    def process(self, frame: bytes) -> bytes | None: ...


class _Sphinx(Protocol):
    """The library PocketSphinx."""

    def Decoder(self, *, samprate: int, loglevel: str) -> _Decoder: ...  # noqa: N802
    def Endpointer(self, *, sample_rate: int) -> _Endpointer: ...  # noqa: N802


def _hear(sound: _Sound, budget: Budget, limits: DocumentLimits) -> None:
    """Put each utterance into words, with the time at which it begins."""
    ends = time.monotonic() + limits.model_time.total_seconds() * _TIME_SHARE
    sphinx = cast("_Sphinx", importlib.import_module("pocketsphinx"))
    decoder = sphinx.Decoder(samprate=RATE, loglevel="FATAL")
    listener = sphinx.Endpointer(sample_rate=RATE)
    lines: list[str] = []
    said = bytearray()
    began = 0.0
    silence = [bytes(listener.frame_bytes)] * 50

    def utter() -> None:
        decoder.start_utt()
        decoder.process_raw(bytes(said), no_search=False, full_utt=True)
        decoder.end_utt()
        said.clear()
        found = decoder.hyp()
        if found is not None and found.hypstr.strip():
            lines.append(f"[{_clock(began)}] {found.hypstr.strip()}")

    def listen(frame: bytes) -> None:
        nonlocal began
        spoken = listener.process(frame)
        if spoken is not None:
            began = listener.speech_start if not said else began
            said.extend(spoken)
            if not listener.in_speech or len(said) > _LONGEST * RATE * _SAMPLE_BYTES:
                utter()

    for frame in sound.blocks(listener.frame_bytes):
        listen(frame.ljust(listener.frame_bytes, b"\0"))
        if time.monotonic() > ends:
            sound.cut()
            break
    else:
        for frame in silence:  # so that what is said last has an end
            listen(frame)
    if said:
        utter()
    budget.note("heard by PocketSphinx, which knows English only and mishears much")
    add_transcript(lines, budget)


def add_transcript(lines: Sequence[str], budget: Budget) -> None:
    """Keep what was said, or tell that nothing was."""
    if lines:
        budget.add(Section(title="Transcript", text=budget.text("\n".join(lines))))
    else:
        budget.note("no speech was heard")


_LONGEST: Final = 30
"""Seconds after which an utterance is put into words although it goes on."""


def _clock(seconds: float) -> str:
    whole = int(seconds)
    hours = f"{whole // 3600}:{whole // 60 % 60:02}" if whole >= 3600 else f"{whole // 60}"
    return f"{hours}:{whole % 60:02}"

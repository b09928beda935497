"""Make real recordings and films from the speech that is kept here."""

from __future__ import annotations

import importlib
import io
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

av: Final[Any] = importlib.import_module("av")  # its types are partly unknown

SPEECH = (Path(__file__).parents[1] / "golden" / "speech.wav").read_bytes()
"""A voice that says "the team found the answer", made by flite; 1.8 s."""


def make_recording(
    container: str,
    codec: str,
    *,
    times: int = 1,
    film: bool = False,
    options: dict[str, str] | None = None,
) -> bytes:
    """Return the speech in another form.

    Args:
        container: its format, as "mp4".
        codec: of the sound, as "aac".
        times: how often it is said.
        film: whether there are pictures too.
        options: of the format.
    """
    written = io.BytesIO()
    with av.open(written, "w", format=container, options=options or {}) as target:
        sound = target.add_stream(codec, rate=48_000, layout="mono")
        if film:
            pictures = target.add_stream("mpeg4", rate=5, width=64, height=48, pix_fmt="yuv420p")
            for number in range(9 * times):
                frame = av.VideoFrame(64, 48, "yuv420p")
                frame.pts, frame.time_base = number, Fraction(1, 5)
                target.mux(pictures.encode(frame))
            target.mux(pictures.encode(None))
        position = 0
        resampler = av.AudioResampler(format=sound.codec_context.format, layout="mono", rate=48_000)
        for _ in range(times):
            with av.open(io.BytesIO(SPEECH)) as source:
                for decoded in source.decode(audio=0):
                    for frame in resampler.resample(decoded):
                        frame.pts, frame.time_base = position, Fraction(1, 48_000)
                        position += frame.samples
                        target.mux(sound.encode(frame))
        target.mux(sound.encode(None))
    return written.getvalue()


def make_silent_film() -> bytes:
    """Return a film without sound."""
    written = io.BytesIO()
    with av.open(written, "w", format="mp4") as target:
        pictures = target.add_stream("mpeg4", rate=5, width=64, height=48, pix_fmt="yuv420p")
        for number in range(5):
            frame = av.VideoFrame(64, 48, "yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, 5)
            target.mux(pictures.encode(frame))
        target.mux(pictures.encode(None))
    return written.getvalue()

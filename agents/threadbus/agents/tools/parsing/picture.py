"""Read the text in a picture, by RapidOCR with the models that its package carries.

The size is checked before a pixel is decoded. Nothing is downloaded: the process has no network.
"""

from __future__ import annotations

import functools
import importlib
import io
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol, cast

from threadbus.agents.tools.parsing.budget import Budget, refuse_size
from threadbus.agents.tools.parsing.model import DocumentLimits, Parsed, Section

_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_PAGED: Final = "TIFF"
MAX_PAGES: Final = 50
_THREADS: Final = 2
TIME_SHARE: Final = 0.7
"""The share of the time limit after which no further page is begun."""
_LINE_SHARE: Final = 0.5
"""How near the middles of two pieces of text lie, in heights, when they are on one line."""

_Corner = Sequence[float]


class Picture(Protocol):
    """A picture, as Pillow has it."""

    size: tuple[int, int]
    format: str | None

    def load(self) -> object: ...
    def seek(self, frame: int) -> None: ...
    def convert(self, mode: str) -> Picture: ...
    def rotate(self, angle: float, *, expand: bool) -> Picture: ...
    def paste(self, image: Picture, box: None, mask: Picture) -> None: ...


class _Pillow(Protocol):
    """The module ``PIL.Image``."""

    MAX_IMAGE_PIXELS: int | None

    def open(
        self, file: io.BytesIO, *, formats: Sequence[str]
    ) -> AbstractContextManager[Picture]: ...
    def new(self, mode: str, size: tuple[int, int], color: str) -> Picture: ...


class _Found(Protocol):
    """What RapidOCR finds; None each where there is no text."""

    boxes: Iterable[Sequence[_Corner]] | None
    txts: Sequence[str] | None


class _Engine(Protocol):
    def __call__(self, image: object) -> _Found: ...


def parse_image(data: bytes, budget: Budget, limits: DocumentLimits) -> Parsed:
    """Read the text of a picture, line by line; of every page of a TIFF."""
    started = time.monotonic()
    # The optional library: its absence is told to the user, see the worker.
    pillow = load_pillow()
    with pillow.open(io.BytesIO(data), formats=_FORMATS) as image:
        _check_pixels(image, limits)
        frames = int(getattr(image, "n_frames", 1))
        pages = frames if image.format == _PAGED else 1
        if frames > pages:
            budget.note(f"it has {frames:,} frames; only the first one is read")
        image.load()  # what is broken is told before the models are loaded
        without_text = 0
        for number in range(pages):
            too_late = time.monotonic() - started > limits.model_time.total_seconds() * TIME_SHARE
            if not budget.takes_sections or number >= MAX_PAGES or (number and too_late):
                budget.lose_sections(pages - number)
                break
            if pages > 1:
                image.seek(number)
                _check_pixels(image, limits)
            text = text_in(image)
            without_text += not text
            title = f"Page {number + 1}" if pages > 1 else ""
            budget.add(Section(title=title, text=budget.text(text)))
        width, height = image.size
    budget.note(f"{image.format}, {width:,} by {height:,} pixels; text was recognised by a program")
    if without_text:
        budget.note("no text was found" + (f" on {without_text} pages" if pages > 1 else ""))
    return budget.parsed()


def load_pillow() -> _Pillow:
    """Return the library of pictures; ImportError where it is not installed."""
    pillow = cast("_Pillow", importlib.import_module("PIL.Image"))
    pillow.MAX_IMAGE_PIXELS = None  # checked here, with a message of our own
    return pillow


def text_in(image: Picture) -> str:
    """Return the text in a picture, line by line."""
    numpy = importlib.import_module("numpy")
    pixels = numpy.asarray(_upright(load_pillow(), image))[:, :, ::-1]
    return "\n".join(_lines(load_engine()(pixels)))


def _check_pixels(image: Picture, limits: DocumentLimits) -> None:
    pixels = image.size[0] * image.size[1]
    if pixels > limits.pixels:
        refuse_size("pixels", pixels, limits.pixels, "DocumentLimits.pixels")


def _upright(pillow: _Pillow, image: Picture) -> Picture:
    """Return a picture as a person sees it: turned as its camera says, on white."""
    operations = importlib.import_module("PIL.ImageOps")
    turned = cast("Picture", operations.exif_transpose(image)).convert("RGBA")
    white = pillow.new("RGBA", turned.size, "white")
    white.paste(turned, None, turned)
    return white.convert("RGB")


@functools.cache
def load_engine() -> _Engine:
    """Return what recognises text; ImportError where it is not installed."""
    importlib.import_module("onnxruntime")  # RapidOCR would look for it later, and say less
    rapidocr = cast("_MakesEngine", importlib.import_module("rapidocr"))
    settings: dict[str, object] = {
        "Global.log_level": "critical",
        "EngineConfig.onnxruntime.intra_op_num_threads": _THREADS,
        "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        # It keeps memory for the largest picture so far.
        "EngineConfig.onnxruntime.enable_cpu_mem_arena": False,
    }
    return rapidocr.RapidOCR(params=settings)


class _MakesEngine(Protocol):
    def RapidOCR(self, *, params: dict[str, object]) -> _Engine: ...  # noqa: N802 -- its name


def _lines(found: _Found) -> list[str]:
    """Return the pieces of text as lines, from top to bottom and left to right."""
    if found.boxes is None or found.txts is None:
        return []
    pieces: list[tuple[float, float, float, str]] = []
    for corners, text in zip(found.boxes, found.txts, strict=True):
        ys = [float(corner[1]) for corner in corners]
        left = min(float(corner[0]) for corner in corners)
        pieces.append(((min(ys) + max(ys)) / 2, max(ys) - min(ys), left, text))
    rows: list[list[tuple[float, float, float, str]]] = []
    for piece in sorted(pieces):
        middle, height = piece[:2]
        last = rows[-1][-1] if rows else None
        if last is not None and middle - last[0] < min(height, last[1]) * _LINE_SHARE:
            rows[-1].append(piece)
        else:
            rows.append([piece])
    return ["  ".join(piece[3] for piece in sorted(row, key=lambda one: one[2])) for row in rows]

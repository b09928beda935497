"""A real Chromium without a window, and what a page did in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import BrowserContext, Page, sync_playwright

DEADLINE_MS: Final = 30_000
"""Milliseconds for anything that a page should do."""

MERMAID: Final = "THREADBUS_MERMAID"
"""The path of mermaid.min.js, from the npm package mermaid."""

_FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium_binary() -> str | None:
    """Return the path of Debian's Chromium, or of any other that is installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def mermaid_script() -> Path | None:
    """Return the script of Mermaid, where there is one."""
    path = os.environ.get(MERMAID)
    return Path(path) if path and Path(path).is_file() else None


@contextmanager
def chromium(
    binary: str, folder: Path, *, scheme: Literal["dark", "light"] = "light"
) -> Generator[BrowserContext]:
    """Start the browser with a new profile in *folder*, and end it."""
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            folder,
            executable_path=binary,
            headless=True,
            args=list(_FLAGS),
            viewport={"width": 1400, "height": 900},
            color_scheme=scheme,
        )
        context.set_default_timeout(DEADLINE_MS)
        try:
            yield context
        finally:
            context.close()


@dataclass
class Watched:
    """A page, and everything that it did which it should not have done."""

    page: Page
    requests: list[str] = field(default_factory=list[str])
    complaints: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("popup", lambda _: self.complaints.append("it opened a window"))

        def refuse(dialog: object) -> None:
            self.complaints.append("it opened a dialog")

        self.page.on("dialog", refuse)

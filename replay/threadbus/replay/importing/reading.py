"""A file of another system in, runs out: the format told by the shape of what is in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from threadbus.replay.errors import ImportFileError
from threadbus.replay.importing import chat, generic, groupchat, openai_agents, otlp, spans
from threadbus.replay.importing.building import ImportedRun, RunBuilder
from threadbus.replay.importing.shape import MAX_RUNS, Json, each, load, records, text, word

_SAMPLE: Final = 50


class ImportFormat(StrEnum):
    """What ``--format`` takes."""

    AUTO = "auto"
    """Told by the shape of the file."""
    WHO_AND_WHEN = "who-and-when"
    """Group chats of the Who&When set, of AG2 and of Magentic-One."""
    AGENTRX = "agentrx"
    """Runs of the AgentRx set: group chats, or chats with tools."""
    TAU_BENCH = "tau-bench"
    """Chats with tools, as chat completions have them."""
    OPENAI_AGENTS = "openai-agents"
    """Traces of the OpenAI Agents SDK."""
    OTLP_JSON = "otlp-json"
    """OpenTelemetry traces in JSON."""
    JSONL = "jsonl"
    """Any JSON objects that say who said what."""


def detect(documents: Sequence[object], path: str) -> ImportFormat:
    """Tell the format of a file.

    Raises:
        ImportFileError: it is none that is known.
    """
    sample = [document for document, _ in zip(each(documents), range(_SAMPLE), strict=False)]
    if any("resourceSpans" in one or "resource_spans" in one for one in sample):
        return ImportFormat.OTLP_JSON
    inner = [one for document in sample for one in records(document.get("data"))]
    if any(
        one.get("object") in {openai_agents.TRACE, openai_agents.SPAN} for one in sample + inner
    ):
        return ImportFormat.OPENAI_AGENTS
    if any(groupchat.is_group_chat(one) for one in sample):
        return ImportFormat.WHO_AND_WHEN
    chats = [messages for one in sample if (messages := chat.messages_of(one))]
    if chats:
        indexed = any("index" in message for message in chats[0][:3])
        return ImportFormat.AGENTRX if indexed else ImportFormat.TAU_BENCH
    if any({"seq", "event"} <= set(one) for one in sample):
        raise ImportFileError(path, "it is an exported file already", "show it with --file")
    if any(generic.is_message(one) for one in sample):
        return ImportFormat.JSONL
    keys = ", ".join(sorted({key[:40] for one in sample for key in one})[:12])
    found = f"its objects have {keys}" if keys else "it has no objects"
    raise ImportFileError(
        path,
        f"its format is none that is known here; {found}",
        "give --format, or write one object for each message with `agent`, `content` and, where "
        "it is known, `to` and `timestamp`",
    )


def import_file(
    path: Path | str, format_: ImportFormat = ImportFormat.AUTO
) -> Iterator[ImportedRun]:
    """Return the runs of a file, one after the other.

    Args:
        path: JSON or JSONL, also gzipped.
        format_: how to read it.

    Raises:
        ImportFileError: it cannot be read, is too large, or is not of that format.
    """
    where = str(path)
    documents = load(Path(path))
    if format_ is ImportFormat.AUTO:
        format_ = detect(documents, where)
    runs = _runs(documents, format_, where, Path(path).stem)
    found = 0
    for number, run in enumerate(runs, 1):
        if number > MAX_RUNS:
            raise ImportFileError(where, f"more than {MAX_RUNS:,} runs", "split it into several")
        found = number
        yield run
    if not found:
        raise ImportFileError(where, f"it has no run of the format {format_.value}", "try another")


def _runs(
    documents: Sequence[object], format_: ImportFormat, where: str, stem: str
) -> Iterator[ImportedRun]:
    match format_:
        case ImportFormat.OTLP_JSON:
            yield from _otlp(documents, where)
        case ImportFormat.OPENAI_AGENTS:
            yield from _openai(documents, where)
        case ImportFormat.JSONL:
            yield from _generic(documents, where, stem)
        case _:
            yield from _chats(documents, format_, where, stem)


def _chats(
    documents: Sequence[object], format_: ImportFormat, where: str, stem: str
) -> Iterator[ImportedRun]:
    takes_groups = format_ is not ImportFormat.TAU_BENCH
    for number, document in enumerate(each(documents), 1):
        messages = chat.messages_of(document)
        is_group = takes_groups and groupchat.is_group_chat(document)
        if not messages and not is_group:
            continue
        name = word(document, "question_ID", "question_id", "task_id", "id", "name")
        trial = word(document, "trial")
        name = f"{name}, trial {trial}" if trial else name or f"{stem} {number}"
        builder = RunBuilder(format_.value, name, where)
        if is_group:
            groupchat.tell(builder, document)
        else:
            chat.tell(builder, messages, word(document, "agent", "assistant") or "assistant")
        yield builder.build()


def _openai(documents: Sequence[object], where: str) -> Iterator[ImportedRun]:
    flat: list[Json] = []
    for document in each(documents):
        flat += [document] if "object" in document else records(document.get("data"))
    for trace_id, (trace, found) in openai_agents.traces_of(flat).items():
        builder = RunBuilder(ImportFormat.OPENAI_AGENTS.value, trace_id, where)
        told = [openai_agents.span_of(one) for one in found]
        spans.tell(builder, told, text(trace.get("workflow_name")))
        yield builder.build()


def _otlp(documents: Sequence[object], where: str) -> Iterator[ImportedRun]:
    for trace_id, found in otlp.traces_of(each(documents)).items():
        builder = RunBuilder(ImportFormat.OTLP_JSON.value, trace_id, where)
        builder.trace_id = trace_id
        spans.tell(builder, found, "")
        yield builder.build()


def _generic(documents: Sequence[object], where: str, stem: str) -> Iterator[ImportedRun]:
    runs: dict[str, list[Json]] = {}
    for document in each(documents):
        inner = records(document.get("messages")) or records(document.get("events"))
        for message in inner or [document]:
            if generic.is_message(message):
                key = word(message, *generic.RUN) or word(document, *generic.RUN)
                runs.setdefault(key, []).append(message)
    for name, messages in runs.items():
        builder = RunBuilder(ImportFormat.JSONL.value, name or stem, where)
        generic.tell(builder, messages)
        yield builder.build()

"""The labelled runs: where they are, what the labels say, and the runs as logs of this bus.

The data stays where it is; the path comes from the command line, from ``THREADBUS_DATA``, or is
``shared/data`` beside the repository. Labels never get into a log.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from threadbus.replay import Suspect, TimelineFold
from threadbus.replay.findings import Analyser, Analysis
from threadbus.replay.findings.acts import Act
from threadbus.replay.findings.causes import suspects_of
from threadbus.replay.importing import ImportedRun, ImportFormat, import_file

WHO_AND_WHEN: Final = "who_and_when/algorithm_generated"
AGENTRX: Final = "agentrx/tau_retail/tau_dataset_full.json"
AGENTRX_LABELS: Final = "agentrx/ground_truth/tau_ground_truth.json"
TAU_BENCH: Final = "tau_bench/gpt-4o-airline.json"
_ROOT: Final = Path(__file__).parents[2]


class Label(msgspec.Struct, frozen=True):
    """Who made the mistake that decided the run, and where."""

    agent: str
    """By its canonical name."""
    step: int
    """Index into the messages of the other log, from 0."""


class LabelledRun(msgspec.Struct, frozen=True):
    """A run, what is known of its end, and what the detectors say."""

    run: ImportedRun
    analysis: Analysis
    followed: tuple[Suspect, ...]
    """What causes lead back to from the findings, by the hand-set weights."""
    acts: tuple[Act, ...]
    failed: bool
    label: Label | None = None
    faults: tuple[int, ...] = ()
    """Every step that is labelled as wrong, from 0."""


class _Chat(msgspec.Struct):
    mistake_agent: str
    mistake_step: str
    history: list[dict[str, object]]


class _Failure(msgspec.Struct):
    failure_id: int | str
    step_number: int
    failed_agent: str = ""


class _Root(msgspec.Struct):
    failure_id: int | str


class _Truth(msgspec.Struct):
    trajectory_id: int
    failures: list[_Failure]
    root_cause: _Root | None = None


class _Reward(msgspec.Struct):
    task_id: int
    reward: float


def data_folder(given: Path | None = None) -> Path | None:
    """Return the folder with the data, if it is on this machine."""
    named = os.environ.get("THREADBUS_DATA")
    candidates = [given] if given else [Path(named)] if named else []
    candidates += [] if given else [above / "shared/data" for above in list(_ROOT.parents)[:2]]
    return next((folder for folder in candidates if (folder / "README.md").is_file()), None)


def hash_of(folder: Path) -> str:
    """Return a hash of every file that is read, by name and content."""
    digest = hashlib.sha256()
    files = [*_chats(folder), *(folder / name for name in (AGENTRX, AGENTRX_LABELS, TAU_BENCH))]
    for file in sorted(files):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _chats(folder: Path) -> list[Path]:
    return sorted((folder / WHO_AND_WHEN).glob("*.json"), key=lambda file: int(file.stem))


def who_and_when(folder: Path, most: int | None = None) -> Iterator[LabelledRun]:
    """Return the failed runs of teams, each with its label."""
    for file in _chats(folder)[:most]:
        chat = msgspec.json.decode(file.read_bytes(), type=_Chat)
        (run,) = import_file(file, ImportFormat.WHO_AND_WHEN)
        # Exactly as an integer: to look for the label in the text would take 1 for 12.
        step = int(chat.mistake_step)
        plain = chat.mistake_agent.strip().lower().replace(" ", "_")
        yield analysed(run, failed=True, label=Label(plain, step), faults=(step,))


def agentrx(folder: Path) -> Iterator[LabelledRun]:
    """Return the runs of one agent with tools; those that failed have labels for each failure."""
    truths = {
        truth.trajectory_id: truth
        for truth in msgspec.json.decode((folder / AGENTRX_LABELS).read_bytes(), type=list[_Truth])
    }
    rewards = msgspec.json.decode((folder / AGENTRX).read_bytes(), type=list[_Reward])
    runs = import_file(folder / AGENTRX, ImportFormat.AGENTRX)
    for reward, run in zip(rewards, runs, strict=True):
        truth = truths.get(reward.task_id)
        if truth is None:
            yield analysed(run, failed=reward.reward < 1)
            continue
        # Their steps count from 1.
        faults = tuple(failure.step_number - 1 for failure in truth.failures)
        root = None if truth.root_cause is None else truth.root_cause.failure_id
        label = next(
            (
                Label(failure.failed_agent.strip().lower(), failure.step_number - 1)
                for failure in truth.failures
                if str(failure.failure_id) == str(root)
            ),
            None,
        )
        yield analysed(run, failed=True, label=label, faults=faults)


def tau_bench(folder: Path) -> Iterator[LabelledRun]:
    """Return the runs of one agent of which only the reward is known."""
    rewards = msgspec.json.decode((folder / TAU_BENCH).read_bytes(), type=list[_Reward])
    runs = import_file(folder / TAU_BENCH, ImportFormat.TAU_BENCH)
    for reward, run in zip(rewards, runs, strict=True):
        yield analysed(run, failed=reward.reward < 1)


def analysed(
    run: ImportedRun, *, failed: bool, label: Label | None = None, faults: tuple[int, ...] = ()
) -> LabelledRun:
    """Return a run with what the detectors say of it."""
    fold, analyser = TimelineFold(), Analyser()
    for entry in run.entries:
        fold.apply(entry)
        analyser.apply(entry)
    analysis = analyser.finish(fold.timeline)
    followed = suspects_of(analysis.findings, analyser.scene)
    acts = tuple(analyser.acts.all)
    return LabelledRun(run, analysis, followed, acts, failed, label, faults)


def step_of(run: ImportedRun, seq: int) -> int:
    """Return the message of the other log that an entry stands for, or comes after."""
    return max(bisect_right(run.steps, seq) - 1, 0)

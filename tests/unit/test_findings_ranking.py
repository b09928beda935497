"""The ranking of steps by what each looks like, and how its weights are fitted."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from benchmarks.analysis.fitting import fit, fold_of
from benchmarks.writing import write_between
from tests.support.analysis import analyse
from tests.support.story import Story
from threadbus.replay.findings import Analyser
from threadbus.replay.findings.acts import Act
from threadbus.replay.findings.ranking import WEIGHTS, WORDS, features_of, shares_of
from threadbus.replay.importing import ImportedRun, import_file

CODE = "```python\nprint(1)\n```"
FAILED = "exitcode: 1 (execution failed)\nCode output: no such file"
WORKED = "exitcode: 0 (execution succeeded)\nCode output: 12 units in March"


def chat(tmp_path: Path, *said: tuple[str, str]) -> ImportedRun:
    """Return a run of another system in which this was said."""
    history = [{"name": name, "role": "user", "content": text} for name, text in said]
    file = tmp_path / "run.json"
    document = {"question": "How many?", "question_ID": "a", "history": history}
    file.write_text(json.dumps(document), encoding="utf-8")
    (run,) = import_file(file)
    return run


def acts_of(run: ImportedRun) -> list[Act]:
    """Return the acts of a run."""
    analyser = Analyser()
    for entry in run.entries:
        analyser.apply(entry)
    return analyser.acts.all


def test_each_message_is_one_act_with_what_came_of_it(tmp_path: Path) -> None:
    """What a tool brought is an act of its own; code, failure and the end are seen."""
    run = chat(
        tmp_path,
        ("Data_Expert", f"Let us assume that it is there.\n{CODE}"),
        ("Computer_terminal", FAILED),
        ("Check_Expert", f"Again.\n{CODE}"),
        ("Computer_terminal", WORKED),
        ("Check_Expert", "The answer is 12, as expected. TERMINATE"),
    )
    acts = acts_of(run)
    first, failed, _, worked, last = acts

    assert len(acts) == len(run.steps) == 5
    assert first.has_code
    assert first.marks["invents"] == 1
    assert failed.is_tool
    assert failed.is_error
    assert not worked.is_error
    assert not worked.is_empty
    assert last.ends
    assert last.digits == 2


def test_features_say_what_a_step_looks_like(tmp_path: Path) -> None:
    """The first failure, the opening, and what follows are told from one another."""
    acts = acts_of(
        chat(
            tmp_path,
            ("Planner", "We begin with the file."),
            ("Data_Expert", f"Here it is.\n{CODE}"),
            ("Computer_terminal", FAILED),
            ("Check_Expert", "It failed: there is no such file."),
        )
    )
    opening, code, failed, last = features_of(acts)

    assert set().union(opening, code, failed, last) <= set(WORDS)
    assert opening["opens"] == 1
    assert opening["opens_errors"] == 1
    assert code["first_failure"] == 1
    assert code["fails"] == 1
    assert code["then_doubts"] > 0
    assert failed["tool"] == 1
    assert last["last_said"] == 1
    assert last["after_failure"] == 1


def test_suspects_of_an_imported_run_are_ranked_by_looks(tmp_path: Path) -> None:
    """The step whose code fails first is suspected before the words around it, with reasons."""
    run = chat(
        tmp_path,
        ("Planner", "We begin."),
        ("Data_Expert", f"Assume a placeholder for the data.\n{CODE}"),
        ("Computer_terminal", FAILED),
        ("Check_Expert", "So the answer is 12, confirmed."),
        ("Planner", "Fine."),
    )
    suspects = analyse(run.entries).suspects

    assert len(suspects) == 3
    assert suspects[0].seq == run.steps[1]
    assert suspects[0].agent == "data_expert"
    assert "its code is the first that fails" in suspects[0].reasons
    assert suspects[0].score > suspects[1].score >= suspects[2].score
    assert sum(one.score for one in suspects) <= 1


def test_runs_of_the_bus_are_not_ranked_by_looks() -> None:
    """Where causes are recorded, they are followed; a run without a finding has no suspect."""
    story = Story()
    asked = story.open("planner")
    story.close("planner", story.answer("planner", "Let us assume 12", asked))

    assert analyse(story).suspects == ()


def test_shares_of_a_run_add_up_to_one() -> None:
    """Equal steps have equal shares; none at all have none."""
    assert shares_of([]) == []
    assert shares_of([{}, {}], {}) == [0.5, 0.5]
    shares = shares_of([{"invents": 1.0}, {}], {"invents": 2.0})
    assert sum(shares) == pytest.approx(1)
    assert shares[0] > 0.85


def test_the_fit_finds_the_feature_that_tells() -> None:
    """A feature that marks the labelled step counts for it; one that is everywhere does not."""
    runs = [
        (
            [
                {"invents": float(at == number % 4), "words_only": 1.0, "doubts": at % 2}
                for at in range(4)
            ],
            number % 4,
        )
        for number in range(40)
    ]
    weights = fit(runs)

    assert weights["invents"] > 2
    assert abs(weights["doubts"]) < 0.2 * weights["invents"]
    assert "words_only" not in weights
    assert all(
        max(range(4), key=lambda at: shares_of(steps, weights)[at]) == label
        for steps, label in runs
    )


def test_folds_follow_from_names() -> None:
    """A run is always in the same fold, and all folds are used."""
    folds = [fold_of(f"run {number}") for number in range(200)]

    assert folds == [fold_of(f"run {number}") for number in range(200)]
    assert set(folds) == set(range(10))


def test_every_built_in_weight_has_words() -> None:
    """What counts can be said in a reason."""
    assert set(WEIGHTS) == set(WORDS)


def test_an_imported_log_without_an_end_is_a_hint(tmp_path: Path) -> None:
    """A format may have no close, so its absence says little."""
    found = analyse(chat(tmp_path, ("Planner", "We begin."), ("Other", "Yes.")).entries).findings
    kinds = {one.detector: one.kind.value for one in found}

    assert kinds["T2"] == "hint"


def test_a_page_without_marks_is_refused(tmp_path: Path) -> None:
    """Nothing is written where it would not be found again."""
    page = tmp_path / "page.md"
    page.write_text("nothing here\n", encoding="utf-8")

    with pytest.raises(SystemExit, match="measured: labelled runs"):
        write_between(page, "labelled runs", "text")
    assert page.read_text(encoding="utf-8") == "nothing here\n"


def test_acts_are_small() -> None:
    """An act keeps no text."""
    fields = {field.name: field.type for field in msgspec.structs.fields(Act)}

    assert str not in {kind for name, kind in fields.items() if name != "agent"}

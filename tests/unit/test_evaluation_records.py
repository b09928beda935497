"""Results that outlive a kill, and the report that they come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadbus.agents.evaluation import (
    Outcome,
    Question,
    Records,
    RecordsError,
    make_report,
    to_markdown,
)
from threadbus.agents.evaluation.records import Header, Opened
from threadbus.schemas import new_task_id

HEADER = Header(questions="q.jsonl", asked="answerer", started_at=7)
QUESTION = Question(id="one", text="Q?", answer="4", level="1")


def outcome(question: Question, attempt: int, said: str) -> Outcome:
    """Make an outcome."""
    return Outcome(
        question=question.id,
        attempt=attempt,
        digest=question.digest,
        task=new_task_id(),
        status="completed",
        said=said,
        right=None if question.answer is None else said == question.answer,
        input_tokens=10,
        output_tokens=2,
        cost=0.5,
    )


def test_what_was_recorded_is_there_after_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    """The torn line is dropped, and the file goes on from the whole ones."""
    path = tmp_path / "r.jsonl"
    first, second = outcome(QUESTION, 1, "4"), outcome(QUESTION, 2, "5")
    with Records(path, HEADER) as records:
        records.add(Opened(question="one", attempt=1, task=first.task))
        records.add(first)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type":"ended","question":"o')
    later = Header(questions="q.jsonl", asked="answerer", started_at=99)
    with Records(path, later) as records:
        assert records.outcomes == {("one", 1): first}
        assert records.opened == {("one", 1): first.task}
        assert records.started_at == 7
        records.add(second)
    with Records(path, HEADER) as records:
        assert records.outcomes[("one", 2)] == second
    assert path.read_bytes().startswith(whole)


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Other questions, another team, no results at all, a line that is none."""
    path = tmp_path / "r.jsonl"
    other = Header(questions="q.jsonl", asked="team york", started_at=1)
    with Records(path, other):
        # A run that could not begin binds no later one.
        pass
    with Records(path, HEADER) as records:
        records.add(Opened(question="one", attempt=1, task=new_task_id()))
    with (
        pytest.raises(RecordsError, match="it holds results of answerer for"),
        Records(path, other),
    ):
        pass
    for content, says in (
        (b'{"a": 1}\n', "line 1 is no result"),
        (path.read_bytes() + b"[]\n", "line 3 is no result"),
        (b'{"type":"opened","question":"q","attempt":1,"task":"x"}\n', "no file of results"),
    ):
        path.write_bytes(content)
        with pytest.raises(RecordsError, match=says), Records(path, HEADER):
            pass
        assert path.read_bytes() == content
    with pytest.raises(RecordsError), Records(tmp_path / "none" / "r.jsonl", HEADER):
        pass


def test_two_runs_cannot_write_one_file(tmp_path: Path) -> None:
    """The second one is told, and what to do."""
    path = tmp_path / "r.jsonl"
    with (
        Records(path, HEADER),
        pytest.raises(RecordsError, match="another `bus eval` writes to it"),
        Records(path, HEADER),
    ):
        pass
    with Records(path, HEADER):
        pass


def test_the_report_counts_what_is_known(tmp_path: Path) -> None:
    """Questions of which attempts are missing, or whose text has changed, are not scored."""
    two = Question(id="two", text="R?", answer="5", level="2")
    changed = Question(id="three", text="now", answer="4", level="2")
    unknown = Question(id="four", text="U?")
    questions = [QUESTION, two, changed, unknown]
    with Records(tmp_path / "r.jsonl", HEADER) as records:
        records.add(outcome(QUESTION, 1, "4"))
        records.add(outcome(QUESTION, 2, "9"))
        records.add(outcome(two, 1, "5"))
        records.add(outcome(Question(id="three", text="before", answer="4"), 1, "4"))
        records.add(outcome(unknown, 1, "x"))
        report = make_report(questions, records, file="q.jsonl", asked="a", attempts=2)

    assert (report.questions, report.scored, report.ended) == (4, 1, 4)
    assert report.pass_at == [0.5, 1.0]
    assert [(group.level, group.pass_at) for group in report.levels] == [("1", [0.5, 1.0])]
    assert (report.input_tokens, report.output_tokens, report.cost) == (40, 8, 2.0)


def test_what_others_wrote_does_not_break_the_table(tmp_path: Path) -> None:
    """A cell is one line without markup, whatever the answer is."""
    question = Question(id="a|b", text="Q?", answer="x")
    said = "| x |\n\n# Head <script> `code` \u202e" + "y" * 500
    with Records(tmp_path / "r.jsonl", HEADER) as records:
        records.add(outcome(question, 1, said))
        report = make_report([question], records, file="q", asked="a", attempts=1)
    lines = to_markdown(report).splitlines()
    row = next(line for line in lines if "a\\|b" in line)

    assert "<script>" not in row.replace("\\<", "")
    assert "\u202e" not in row
    assert row.count("|") - row.count("\\|") == 8
    assert not any(line.startswith("# Head") for line in lines)


def test_an_empty_report_is_one(tmp_path: Path) -> None:
    """Before anything has ended there is nothing to divide by."""
    with Records(tmp_path / "r.jsonl", HEADER) as records:
        report = make_report([QUESTION], records, file="q", asked="a", attempts=3)
    assert report.pass_at == [0.0, 0.0, 0.0]
    assert "0 of 3 attempts have ended" in to_markdown(report)

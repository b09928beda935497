"""The example of ops/compose.yaml is the one that the playbook of the team is about."""

from __future__ import annotations

from tests.support.compose import ROOT
from threadbus.agents.teams.anemoi.script import SCRIPT
from threadbus.agents.teams.anemoi.site import PAGES
from threadbus.schemas import FilePart, TextPart

EXAMPLE = ROOT / "ops" / "compose" / "example"


def test_pages_files_and_question_are_those_of_the_playbook() -> None:
    """Whatever changes in one place has to change in the other."""
    asked, *files = SCRIPT.question()

    assert {path: (EXAMPLE / path[1:]).read_text() for path in PAGES} == dict(PAGES)
    for file in files:
        assert isinstance(file, FilePart)
        assert (EXAMPLE / file.name).read_bytes() == file.content
    assert isinstance(asked, TextPart)
    before, _, after = asked.text.partition("http://")
    question = f"{before}http://ostwick:8080/{after.partition('/')[2]}"
    assert (EXAMPLE / "question.txt").read_text().strip() == question

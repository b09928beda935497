"""P1 and P2: plans that are made over and over, or left aside."""

from __future__ import annotations

from tests.support.analysis import found
from tests.support.story import Story
from threadbus.replay import FindingKind
from threadbus.schemas import EventId, PlanProposed, PlanRevised, PlanStep


def planned(*steps: PlanStep) -> tuple[Story, EventId, EventId]:
    """Return a run with a plan, what was asked, and the plan."""
    story = Story()
    asked = story.open("planner", "coder", "document")
    return story, asked, story.add("planner", PlanProposed(steps=steps), cause=asked)


def revise(story: Story, replaces: EventId, title: str, cause: EventId) -> EventId:
    """Append another version of the plan."""
    return story.add(
        "planner", PlanRevised(replaces=replaces, steps=(PlanStep(title),)), cause=cause
    )


def test_revisions_without_work_are_churn() -> None:
    """The third one is reported; its predecessors are the evidence."""
    story, asked, first = planned(PlanStep("Read"))
    second = revise(story, first, "Read it", asked)
    third = revise(story, second, "Read all of it", asked)
    fourth = revise(story, third, "Read and sum", asked)
    (finding,) = found("P1", story)

    assert (finding.kind, finding.evidence) == (FindingKind.SYMPTOM, (fourth, second, third))


def test_a_plan_that_comes_back_is_churn() -> None:
    """Away from it and to it again."""
    story, asked, first = planned(PlanStep("Read"))
    second = revise(story, first, "Sum", asked)
    third = revise(story, second, "READ", asked)
    (finding,) = found("P1", story)

    assert finding.evidence == (third, first)


def test_revisions_after_finished_work_are_no_churn() -> None:
    """Each has learned something."""
    story, asked, plan = planned(PlanStep("Read"))
    for number in range(5):
        work = story.assign("planner", "coder", f"Sum {number}", asked)
        story.finish("coder", work, "4")
        plan = revise(story, plan, f"Read {number}", asked)

    assert found("P1", story) == []


def test_a_step_that_nobody_was_given_and_work_beside_the_plan_are_hints() -> None:
    """Only of a task that was completed."""
    story, asked, plan = planned(PlanStep("Read", "document"), PlanStep("Write", "planner"))
    work = story.assign("planner", "coder", "Sum it", asked)
    story.finish("coder", work, "4")
    running = found("P2", story)
    story.close("planner", story.answer("planner", "4", asked))
    findings = found("P2", story)

    assert running == []
    assert [(one.evidence[0], one.kind) for one in findings] == [
        (plan, FindingKind.HINT),
        (work, FindingKind.HINT),
    ]
    assert "step 1 of the plan was never given to document" in findings[0].text


def test_a_plan_that_was_followed_has_no_hints() -> None:
    """Each step was given to its agent; a step without an agent may be anybody's."""
    story, asked, _ = planned(PlanStep("Sum", "coder"), PlanStep("Check"))
    story.finish("coder", story.assign("planner", "coder", "Sum it", asked), "4")
    story.finish("document", story.assign("planner", "document", "Check it", asked), "4")
    story.close("planner", story.answer("planner", "4", asked))

    assert found("P2", story) == []

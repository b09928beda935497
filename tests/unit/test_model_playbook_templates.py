"""Templates of playbooks: paths and filters, and nothing that could be run."""

from __future__ import annotations

import pytest

from threadbus.agents.model.playbook.conversation import Said
from threadbus.agents.model.playbook.template import TemplateError, render, render_value

NAMES: dict[str, object] = {
    "user": Said("What is the total?\nPlease."),
    "step": 2,
    "flag": True,
    "nothing": None,
    "tool": {"read_csv": Said('{"rows": [{"name": "Ada", "sum total": 1234567}], "mean": 2.5}')},
    "many": {f"key{number}": number for number in range(50)},
}


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("no expression", "no expression"),
        ("{{ user }}", "What is the total?\nPlease."),
        ("{{ user.text | first_line }}", "What is the total?"),
        ("step {{ step }}, {{ flag }}, {{ nothing }}", "step 2, true, null"),
        ("{{ tool.read_csv.json.rows.0.name }}!", "Ada!"),
        ('{{ tool.read_csv.json.rows.0."sum total" | thousands }}', "1,234,567"),
        ("{{ tool.read_csv.json.mean | thousands }}", "2.5"),
        ("{{ tool.read_csv.json.rows }}", '[{"name":"Ada","sum total":1234567}]'),
        ("{{ tool.read_csv.json.rows.0.name | upper | json }}", '"ADA"'),
        ("{{ user | first_line | lower | trim }}", "what is the total?"),
        ("{{ user | json }}", '"What is the total?\\nPlease."'),
        ("f'{{x}}' and {{}} and { } stay", "f'{{x}}' and {{}} and { } stay"),
    ],
)
def test_an_expression_is_filled_in(template: str, filled: str) -> None:
    """Text stays text, everything else is shown as JSON; code with braces is left alone."""
    assert render(template, NAMES) == filled


def test_a_value_keeps_its_type_where_it_stands_alone() -> None:
    """Arguments of a tool call may be numbers, lists and objects."""
    value = {
        "number": "{{ step }}",
        "row": "{{ tool.read_csv.json.rows.0 }}",
        "text": "{{ user }}",
        "mixed": "step {{ step }}",
        "list": ["{{ flag }}", 7],
    }

    assert render_value(value, NAMES) == {
        "number": 2,
        "row": {"name": "Ada", "sum total": 1234567},
        "text": "What is the total?\nPlease.",
        "mixed": "step 2",
        "list": [True, 7],
    }


def test_what_is_filled_in_is_not_filled_in_again() -> None:
    """What a tool or a user says cannot reach into the template."""
    assert render("{{ user }}", {"user": Said("{{ step }}"), "step": 1}) == "{{ step }}"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ usr }}", "the playbook has no 'usr'; there is user, step"),
        ("{{ tool.read_csv.json.row }}", "tool.read_csv.json has no 'row'; there is rows, mean"),
        ("{{ tool.read_csv.json.rows.1 }}", "it is a list of 1, counted from 0"),
        ("{{ tool.read_csv.rows }}", "there is text, json and tool"),
        ("{{ user.json.x }}", "its text is not JSON"),
        ("{{ step.x }}", "step has no 'x'; it is '2'"),
        ("{{ many.key }}", "more"),
        ("{{ user | thousands }}", "thousands cannot be applied to 'What is the total"),
        ("{{ user.__class__ }}", "there is text, json and tool"),
        ("{{ user() }}", "a path such as"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(template: str, said: str) -> None:
    """The error helps whoever writes the playbook."""
    with pytest.raises(TemplateError) as caught:
        render(template, NAMES)

    assert said in str(caught.value)
    assert len(str(caught.value)) < 400

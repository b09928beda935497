"""Which play is due, and what it answers."""

from __future__ import annotations

import msgspec
import pytest

from threadbus.agents.errors import PlaybookMissError, PlaybookTemplateError
from threadbus.agents.model import ChatMessage, ToolCall
from threadbus.agents.model.playbook import UsagePlay, parse_playbook
from threadbus.agents.model.playbook.director import Director, Reply
from threadbus.agents.model.playbook.wire import BadRequestError, ChatRequest, parse_request
from threadbus.agents.model.request import request_body

USER = ChatMessage.user("How much is 2 + 3?")
CALL = ChatMessage.assistant("", (ToolCall("c1", "add", '{"a":2,"b":3}'),))
RESULT = ChatMessage.tool("c1", '{"sum": 5}')


def request(*messages: ChatMessage) -> ChatRequest:
    return parse_request(msgspec.json.encode(request_body(messages, [], {"model": "any"})))


def answer(toml: str, *messages: ChatMessage, agent: str = "") -> Reply:
    return Director(parse_playbook(toml, "test.toml")).answer(agent, request(*messages))


def test_the_first_play_that_matches_wins() -> None:
    """Whatever comes below it."""
    toml = '[[play]]\nagent = "b"\ntext = "1"\n[[play]]\ntext = "2"\n[[play]]\ntext = "3"'

    assert answer(toml, USER, agent="a").text == "2"
    assert answer(toml, USER, agent="b").text == "1"


def test_the_agent_may_be_one_of_several() -> None:
    """A list means any of these."""
    toml = '[[play]]\nagent = ["a", "b"]\ntext = "team"\n[[play]]\ntext = "other"'

    assert [answer(toml, USER, agent=name).text for name in "abc"] == ["team", "team", "other"]


def test_without_a_header_the_user_field_is_the_agent() -> None:
    """For clients that cannot set headers."""
    toml = '[[play]]\nagent = "b"\ntext = "hello b"'
    body = msgspec.json.encode(request_body([USER], [], {"model": "any", "user": "b"}))

    assert Director(parse_playbook(toml)).answer("", parse_request(body)).text == "hello b"


def test_a_step_counts_from_the_last_user_message_and_a_turn_from_the_beginning() -> None:
    """Both start at 1."""
    toml = '[[play]]\ntext = "{{ step }}/{{ turn }}"'
    done = ChatMessage.assistant("5")

    assert answer(toml, USER).text == "1/1"
    assert answer(toml, USER, CALL, RESULT).text == "2/2"
    assert answer(toml, USER, CALL, RESULT, done, USER).text == "1/3"


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ("step = 2", True),
        ("step = 1", False),
        ("turn = 2", True),
        ("turn = 3", False),
        ('after_tool = "add"', True),
        ('after_tool = "sub"', False),
        ("when = '\"sum\": \\d'", True),
        ("when = 'How much'", False),
        ("find = { x = 'How (\\w+)' }", True),
        ("find = { x = 'How (\\w+)', y = 'nowhere' }", False),
    ],
)
def test_each_condition_decides(condition: str, matches: bool) -> None:
    """A play without it would match; with it, it does or does not."""
    toml = f'[[play]]\n{condition}\ntext = "yes"\n[[play]]\ntext = "no"'

    assert answer(toml, USER, CALL, RESULT).text == ("yes" if matches else "no")


def test_templates_see_what_was_asked_and_returned() -> None:
    """The names that the documentation lists."""
    toml = r"""
        [[play]]
        when = '"(?P<key>\w+)": (\d)'
        find = { question = 'How (\w+) is (\d)', whole = '2 . 3' }
        text = "{{ agent }} {{ model }} {{ system }} {{ user.text }} {{ match.0 }} {{ match.2 }}"
        [[play.call]]
        tool = "report"
        [play.call.arguments]
        sum = "{{ tool.add.json.sum }}"
        of = "{{ results.0.json }}"
        key = "{{ match.key }}"
        find = "{{ find.question }} {{ find.whole }}"
        last = "{{ last }}"
        tool = "{{ results.0.tool }}"
    """
    system = ChatMessage.system("Be brief.")
    reply = answer(toml, system, USER, CALL, RESULT, agent="a")

    assert reply.text == 'a any Be brief. How much is 2 + 3? "sum": 5 5'
    assert reply.finish_reason == "tool_calls"
    assert (reply.calls[0].id, reply.calls[0].tool) == ("call_2_1", "report")
    assert msgspec.json.decode(reply.calls[0].arguments) == {
        "sum": 5,
        "of": {"sum": 5},
        "key": "sum",
        "find": "much 2 + 3",
        "last": '{"sum": 5}',
        "tool": "add",
    }


def test_the_newest_message_counts_for_find_and_the_latest_result_for_tool() -> None:
    """Both look back from the end."""
    toml = "[[play]]\nfind = { n = 'is (\\d)' }\ntext = \"{{ find.n }} {{ tool.add }}\""
    later = ChatMessage.user("And how much is 7 + 1?")

    assert answer(toml, USER, CALL, RESULT, later).text == '7 {"sum": 5}'


def test_a_play_may_be_used_a_few_times_only() -> None:
    """Afterwards the next one is due."""
    toml = '[[play]]\ntimes = 2\ntext = "a"\n[[play]]\ntext = "b"'
    director = Director(parse_playbook(toml))

    assert [director.answer("", request(USER)).text for _ in range(3)] == ["a", "a", "b"]


def test_usage_follows_the_rule_unless_the_play_says_otherwise() -> None:
    """A token for every four characters, begun ones included, message by message."""
    four = ChatMessage.user("1234")
    five = ChatMessage.user("12345")

    assert answer('[[play]]\ntext = "123456789"', four, five).usage == UsagePlay(3, 3)
    assert answer('[[play]]\ntext = "a"\nusage = { input = 7 }', four).usage == UsagePlay(7, 0)
    assert answer('[[play]]\ntext = "a"\nusage = false', four).usage is None


def test_a_miss_tells_the_author_everything() -> None:
    """File, agent, step, last message, and what the plays that came near want."""
    toml = """
        [[play]]
        agent = "planner"
        step = 1
        text = "x"
        [[play]]
        name = "sum up"
        agent = "planner"
        when = "total"
        text = "y"
        [[play]]
        agent = "coder"
        text = "z"
    """
    with pytest.raises(PlaybookMissError) as caught:
        answer(toml, USER, CALL, RESULT, agent="planner")

    message = str(caught.value)
    assert "no play in test.toml matches agent 'planner', step 2, turn 2" in message
    assert "'{\"sum\": 5}'" in message
    assert "Play 1 wants step 1; play 2 (sum up) wants 'total' in the last message." in message
    assert "coder" not in message


def test_a_miss_of_an_unknown_agent_says_so() -> None:
    """And a long message is shortened."""
    with pytest.raises(PlaybookMissError) as caught:
        answer('[[play]]\nagent = "a"\ntext = "x"', ChatMessage.user("x" * 5_000), agent="b")

    assert "No play is for this agent." in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_template_that_fails_names_file_play_and_expression() -> None:
    """And what there is instead."""
    with pytest.raises(PlaybookTemplateError) as caught:
        answer('[[play]]\nname = "sum"\ntext = "{{ tool.sub.json.x }}"', USER, CALL, RESULT)

    assert str(caught.value) == (
        "playbook test.toml, play 1 (sum): {{ tool.sub.json.x }} cannot be filled in: "
        "tool has no 'sub'; tools have returned: add"
    )


def test_a_play_that_failed_to_fill_in_is_not_used_up() -> None:
    """Its next chance counts as the first."""
    director = Director(parse_playbook('[[play]]\ntimes = 1\ntext = "{{ user.json.x }}"'))
    with pytest.raises(PlaybookTemplateError):
        director.answer("", request(USER))

    assert director.answer("", request(ChatMessage.user('{"x": 1}'))).text == "1"


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ((USER, CALL), "must be followed by tool messages"),
        ((USER, CALL, USER), "must be followed by tool messages"),
        ((USER, RESULT), "answers no call"),
        ((USER, CALL, RESULT, RESULT), "answers no call"),
        ((USER, CALL, ChatMessage.tool("c2", "x")), "answers no call"),
    ],
)
def test_calls_without_results_are_refused(messages: tuple[ChatMessage, ...], said: str) -> None:
    """As OpenAI's own server does, so that a playbook finds such mistakes."""
    with pytest.raises(BadRequestError, match=said):
        request(*messages)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not a chat completion request"),
        (b"{", "not a chat completion request"),
        (b"[1]", "not a chat completion request"),
        (b'{"model":"m","messages":[]}', "length >= 1"),
        (b'{"model":"m","messages":[{"role":"robot"}]}', "$.messages[0].role"),
        (b'{"model":"m","messages":' + b"[" * 100_000, "nested too deep|not a chat"),
        (b'{"messages":[{"role":"user","content":"x"}]}', "model"),
    ],
)
def test_a_request_that_is_none_is_told_where(body: bytes, said: str) -> None:
    """With the path inside the JSON."""
    with pytest.raises(BadRequestError) as caught:
        parse_request(body)

    assert any(part in str(caught.value) for part in said.split("|"))

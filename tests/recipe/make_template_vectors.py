"""Makes the expected outputs of chat templates with Hugging Face transformers, which runs them on jinja2.

    pip install transformers jinja2
    python make_template_vectors.py OUTPUT_DIR NAME.jinja...

writes OUTPUT_DIR/NAME.json and a copy of each template beside it. The repository keeps the vectors of templates whose
licence allows it (see tests/vectors/templates/README.md). Any other template can be checked with

    python make_template_vectors.py /tmp/vectors some/templates/*.jinja
    DEEPINFER_TEMPLATE_VECTORS=/tmp/vectors recipe_test --gtest_filter='ChatTemplate.*'
"""

import datetime
import json
import pathlib
import shutil
import sys

import transformers.utils.chat_template_utils as utils

NOW = 1767323045  # 2026-01-02 03:04:05 UTC


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=tz)


utils.datetime = FixedTime

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather at a place, e.g. \"Köln\" <b>now</b> & here",
        "parameters": {"type": "object", "required": ["place"], "properties": {
            "place": {"type": "string", "description": "City, 城市"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": "integer", "minimum": 1, "maximum": 1.5e16},
            "exact": {"type": "boolean", "default": False}, "hint": {"type": ["string", "null"], "default": None}}}}},
    {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}},
]


def call(name, arguments, call_id="call00001"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def tool(text, call_id="call00001"):
    return {"role": "tool", "content": text, "tool_call_id": call_id, "name": "get_weather"}


WEATHER_CALL = assistant("", tool_calls=[call("get_weather", {"place": "Köln", "days": 2, "exact": True, "hint": None, "f": 0.1})])

CONVERSATIONS = {
    "user": [user("Hello!")],
    "system_user": [system("Be brief."), user("Hello!")],
    "multi_turn": [system("Be brief."), user("1+1?"), assistant("2"), user("And 2+2?")],
    "no_system_multi_turn": [user("1+1?"), assistant("2"), user("And 2+2?"), assistant("4"), user("Thanks")],
    "ends_with_assistant": [user("Tell me a story"), assistant("Once upon a time")],
    "system_only": [system("Be brief.")],
    "late_system": [user("Hi"), system("Now be brief."), user("Go on")],
    "two_systems": [system("One."), system("Two."), user("Hi")],
    "empty_user": [user("")],
    "empty_system": [system(""), user("Hi")],
    "empty_assistant": [user("Hi"), assistant(""), user("Hm?")],
    "white_space": [system("  padded \n"), user("\n\n  line one\n\tline two  \n\n"), assistant("  yes \n"), user(" \n ")],
    "unicode": [system("Réponds en français."), user("漢字 \U0001f336\ufe0f \U0001f468\u200d\U0001f469\u200d\U0001f467 \u202eמה\u202c \u0000end"),
                assistant("Ça va — «déjà»"), user("e\u0301 vs \u00e9, \u2028 and \u00a0")],
    "markup": [user("<b>&amp;</b> {{ x }} {% raw %} {# no #} 'single' \"double\" \\n \\\\")],
    "two_users": [user("first"), user("second")],
    "two_assistants": [user("go"), assistant("a"), assistant("b"), user("c")],
    "unknown_role": [{"role": "narrator", "content": "Meanwhile"}, user("Hi")],
    "thinking": [user("1+1?"), assistant("<think>\nOne and one.\n</think>\n\n2"), user("And 2+2?")],
    "reasoning": [user("1+1?"), assistant("2", reasoning_content="One and one."), user("And 2+2?")],
    "long": [user("word " * 200), assistant("ok"), user("again")],
}

TOOL_CONVERSATIONS = {
    "tools_user": [user("Weather in Köln?")],
    "tools_system": [system("Be brief."), user("Weather in Köln?")],
    "tools_call": [user("Weather in Köln?"), WEATHER_CALL, tool('{"temp": 7, "note": "näß"}'), user("Thanks")],
    "tools_call_open": [system("Be brief."), user("Weather?"), WEATHER_CALL, tool("7 °C")],
    "tools_call_with_text": [user("Weather?"), {**WEATHER_CALL, "content": "Let me look."}, tool("7 °C"), assistant("It is 7 °C.")],
    "tools_two_calls": [user("Weather twice?"),
                        assistant("", tool_calls=[call("get_weather", {"place": "Köln"}, "call00001"), call("now", {}, "call00002")]),
                        tool("7 °C", "call00001"), tool("noon", "call00002"), user("Thanks")],
    "tools_null_content": [user("Weather?"), {**WEATHER_CALL, "content": None}, tool("7 °C")],
    "tools_multi_turn": [user("Hi"), assistant("Hello"), user("Weather?"), WEATHER_CALL, tool("7 °C"), assistant("7 °C."),
                         user("And now?"), WEATHER_CALL, tool("8 °C")],
}


def cases():
    for name, messages in CONVERSATIONS.items():
        yield name, {"messages": messages, "tools": None, "add_generation_prompt": True}
    for name in ("user", "multi_turn", "ends_with_assistant"):
        yield name + "_no_header", {"messages": CONVERSATIONS[name], "tools": None, "add_generation_prompt": False}
    for name, messages in TOOL_CONVERSATIONS.items():
        yield name, {"messages": messages, "tools": TOOLS, "add_generation_prompt": True}
    yield "tools_history_without_tools", {"messages": TOOL_CONVERSATIONS["tools_call"], "tools": None, "add_generation_prompt": True}
    for flag in (True, False):
        yield f"enable_thinking_{flag}", {"messages": CONVERSATIONS["multi_turn"], "tools": None,
                                          "add_generation_prompt": True, "enable_thinking": flag}


def render(template, context):
    context = {**context, "bos_token": "<s>", "eos_token": "</s>"}
    messages = context.pop("messages")
    tools = context.pop("tools")
    rendered, _ = utils.render_jinja_template([messages], tools=tools, chat_template=template, **context)
    return rendered[0]


def main():
    output = pathlib.Path(sys.argv[1])
    output.mkdir(parents=True, exist_ok=True)
    for path in map(pathlib.Path, sys.argv[2:]):
        template = path.read_text()
        results = []
        for name, context in cases():
            case = {"name": name, "context": {**context, "documents": None, "bos_token": "<s>", "eos_token": "</s>"}}
            # What transformers gives the template besides what it was given.
            case["context"]["messages"] = utils._alias_reasoning_fields([dict(m) for m in context["messages"]])
            try:
                case["expected"] = render(template, context)
            except Exception as error:  # whatever the template or jinja2 raises
                case["error"] = str(error)
            results.append(case)
        (output / (path.stem + ".json")).write_text(
            json.dumps({"unix_seconds": NOW, "cases": results}, ensure_ascii=False, indent=0) + "\n")
        if (output / path.name).resolve() != path.resolve():
            shutil.copy(path, output / path.name)
        errors = sum("error" in r for r in results)
        print(f"{path.name}: {len(results)} cases, {errors} of them errors")


main()

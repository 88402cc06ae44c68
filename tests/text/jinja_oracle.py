#!/usr/bin/env python3
"""Writes fixtures/jinja_cases.json: templates, contexts and what Jinja2 makes of them.

The environment is the one the transformers library renders chat templates in. Needs python3-jinja2; run it by hand
after adding a case, and commit the result: the tests read the file, not this script.

    python3 tests/text/jinja_oracle.py
"""

import datetime
import json
import pathlib

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1735689600  # 2025-01-01 00:00:00 UTC; the tests set TZ to UTC

USER = {"role": "user", "content": "Hello, who are you?"}
SYSTEM = {"role": "system", "content": "You are  a pirate.\n"}
ASSISTANT = {"role": "assistant", "content": " I am Kvasir. "}
THINKING = {"role": "assistant", "content": "<think>\nhm, 2+2\n</think>\n\nFour."}
TOOL = {"role": "tool", "content": '{"temperature": 21}', "name": "weather"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "call_001", "type": "function",
         "function": {"name": "weather", "arguments": {"city": "Århus", "days": 3, "exact": True}}},
        {"id": "call_002", "type": "function", "function": {"name": "now", "arguments": {}}},
    ],
}
TOOLS = [
    {"type": "function",
     "function": {"name": "weather", "description": "The weather of a city.",
                  "parameters": {"type": "object",
                                 "properties": {"city": {"type": "string", "description": "Its <name> & more"},
                                                "days": {"type": "integer", "enum": [1, 2, 3]}},
                                 "required": ["city"]}}},
    {"type": "function", "function": {"name": "now", "description": "The time", "parameters": {"type": "object",
                                                                                              "properties": {}}}},
]

CHATML = """{% for message in messages %}
{% if loop.first and message['role'] != 'system' %}
{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\\n' }}
{% endif %}
"""

LLAMA3 = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message goes first, whether there is one or not. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}

{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 2 %}
            {{- raise_exception("This model only supports two tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

LLAMA2 = """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = \
messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}\
{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('Roles must alternate user/assistant/user/assistant/...') }}{% endif %}\
{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' \
+ message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}\
{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}\
{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""

QWEN3 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\nYou may call functions.\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.\
startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + \
'\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("roles must alternate user and assistant") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 8 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 8!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- endif %}
{%- endfor %}
"""

GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""

PHI3 = """{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\\n' + \
message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'user' %}{{'<|' + message['role'] + '|>\\n' + \
message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\\n' + message['content'] + \
'<|end|>\\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""

ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
"""

SCHEMA_MACRO = """{%- macro render_type(spec, level=0) -%}
    {%- if spec.type == "object" -%}
        {{- "{\\n" }}
        {%- for key, value in spec.properties.items() -%}
            {{- "  " * (level + 1) ~ key ~ ("" if key in spec.get("required", []) else "?") ~ ": " }}
            {{- render_type(value, level=level + 1) }}
            {{- ",\\n" if not loop.last else "\\n" }}
        {%- endfor -%}
        {{- "  " * level + "}" }}
    {%- elif spec.enum is defined -%}
        {{- spec.enum | map("string") | join(" | ") }}
    {%- else -%}
        {{- spec.type }}
    {%- endif -%}
{%- endmacro -%}
{%- for tool in tools -%}
type {{ tool.function.name }} = {{ render_type(tool.function.parameters) }};
{% endfor -%}
"""

GENERATION = """{%- for m in messages %}
{%- if m.role == 'assistant' %}<a>{% generation %}{{ m.content }}{% endgeneration %}</a>
{%- else %}<u>{{ m.content }}</u>
{%- endif %}
{%- endfor %}"""

MODELS = {"chatml": CHATML, "llama3": LLAMA3, "llama2": LLAMA2, "qwen3": QWEN3, "mistral": MISTRAL, "gemma": GEMMA,
          "phi3": PHI3, "zephyr": ZEPHYR, "generation": GENERATION}

CHATS = [
    [USER],
    [SYSTEM, USER],
    [SYSTEM, USER, ASSISTANT, {"role": "user", "content": "Bye\n<|im_end|> \"x\" ü 😀"}],
    [USER, THINKING, USER],
    [USER, CALL, TOOL],
    [USER, CALL, TOOL, TOOL, THINKING],
]

# (template, context): features one by one. The context is merged into ITEMS.
FEATURES = [
    # white space
    ("a\n{% if true %}\nb\n{% endif %}\nc\n", {}),
    ("  {% if true %}  \n  b\n  {% endif %}\nc", {}),
    ("a  {%- if true -%}  b  {%- endif -%}  c", {}),
    ("  {%+ if true %}b{% endif +%}\n c", {}),
    ("{{ 'x' }}\n{{ 'y' }}\n\n", {}),
    ("a {# comment #} b\n{# line #}\nc {#- tight -#} d", {}),
    ("\t {# c #}\nx", {}),
    ("a\r\nb\rc\n{{ 'd' }}\r\n", {}),
    ("{% raw %}{{ not }} {% code %}{% endraw %}!", {}),
    ("x {%- raw -%}  {{ y }}  {%- endraw -%}  z", {}),
    ("{% raw %}\nkept\n{% endraw %}\ntrimmed", {}),
    ("{{- 'a' -}}  \n  {{- 'b' }}  ", {}),
    ("{% for x in [1,2] %}\n    {{ x }}\n{% endfor %}", {}),
    ("x{% if true %} \n y{% endif %}", {}),
    ("{{ {'a': {'b': 1}}['a']['b'] }}{{ {'a':1}}}", {}),
    # literals and printing
    ("{{ 1 }} {{ 1.0 }} {{ 1.5e3 }} {{ 1e20 }} {{ 1e-7 }} {{ 0.1 + 0.2 }} {{ 1_000 }} {{ 0x1F }} {{ 0b101 }}", {}),
    ("{{ true }} {{ False }} {{ none }} {{ None }} {{ missing }}|", {}),
    ("{{ [1, 'a', none, true, 2.5] }} {{ (1,) }} {{ (1, 'b') }} {{ () }} {{ {'k': [1], 2: 'v'} }}", {}),
    ("{{ ['it\\'s', \"q\\\"q\", 'b\\\\s', 'n\\nl', 'é', '\\x07', '\\u200b', 'a\\tb'] }}", {}),
    ("{{ 'esc: \\n \\t \\\\ \\' \\\" \\x41 \\u00e9 \\U0001F600 \\q \\101' }}", {}),
    ("{{ 'con' 'cat' \"ed\" }}", {}),
    ("{{ 1, 2 }} {{ (1 + 2) * 3 }}", {}),
    # operators
    ("{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}", {}),
    ("{{ 1 + 2 * 3 - 4 }} {{ -2 ** 2 }} {{ 2 * 'ab' }} {{ [1] * 3 }} {{ [1] + [2] }} {{ 'a' ~ 1 ~ none ~ 2.0 }}", {}),
    ("{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 'a' != 'b' }} {{ 2 >= 2 }} {{ 'abc' < 'abd' }} {{ [1,2] < [1,3] }}", {}),
    ("{{ 'b' in 'abc' }} {{ 2 in [1,2] }} {{ 'k' in {'k': 1} }} {{ 3 not in [1,2] }} {{ not true }} {{ 'x' in missing }}", {}),
    ("{{ 0 or 'x' }} {{ '' and 'y' }}| {{ 1 and 2 }} {{ none or [] or 'z' }} {{ not 1 == 2 }}", {}),
    ("{{ 'yes' if 1 else 'no' }} {{ 'yes' if 0 else 'no' }} {{ 'yes' if 0 }}| {{ 1 if false else 2 if false else 3 }}", {}),
    ("{{ true + 1 }} {{ true == 1 }} {{ {1: 'a'}[true] }} {{ -true }} {{ +3 }}", {}),
    # access
    ("{{ d.a }} {{ d['a'] }} {{ d.missing }}| {{ d.list[0] }} {{ d.list[-1] }} {{ d.list.0 }} {{ d['items'] is defined }}", {}),
    ("{{ s[0] }} {{ s[-1] }} {{ s[1:3] }} {{ s[::-1] }} {{ s[:-2] }} {{ s[::2] }} {{ s[5:1:-2] }} {{ s[10:20] }}|", {}),
    ("{{ nums[1:] }} {{ nums[:2] }} {{ nums[::-1] }} {{ nums[-2:] }} {{ nums[1:-1] }} {{ nums[99] is defined }} {{ (1,2,3)[1:] }}", {}),
    ("{{ u[1] }} {{ u|length }} {{ u[::-1] }} {{ u[2:] }}", {}),
    ("{{ d.get('a') }} {{ d.get('zz') }} {{ d.get('zz', 'dflt') }} {{ d.keys()|list }} {{ d.items()|list|length }} {{ d.values()|first }}", {}),
    # if
    ("{% if a is defined %}A{% elif nums %}B{% else %}C{% endif %}", {}),
    ("{% if not nums %}A{% elif not s %}B{% else %}C{% endif %}{% if 0 %}{% endif %}", {}),
    # for
    ("{% for x in nums %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }} {% endfor %}", {}),
    ("{% for x in nums %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}", {}),
    ("{% for x in [] %}x{% else %}empty{% endfor %} {% for x in missing %}x{% else %}undefined{% endfor %}", {}),
    ("{% for x in nums if x % 2 %}{{ x }}:{{ loop.length }} {% else %}none{% endfor %}", {}),
    ("{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", {}),
    ("{% for k in d %}{{ k }},{% endfor %}{% for c in u %}[{{ c }}]{% endfor %}", {}),
    ("{% for a, b in [(1, 2), [3, 4]] %}{{ a + b }} {% endfor %}{% for (a, b) in pairs %}{{ a }}{{ b }}{% endfor %}", {}),
    ("{% for x in nums %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}", {}),
    ("{% for x in nums %}{% for y in nums %}{% if y > x %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{{ loop.index }};{% endfor %}", {}),
    ("{% for x in range(3) %}{{ x }}{% endfor %} {% for x in range(5, 0, -2) %}{{ x }}{% endfor %} {{ range(2, 4)|list }}", {}),
    ("{% for x in nums %}{{ loop.cycle('a', 'b') }}{% endfor %}", {}),
    ("{% set x = 1 %}{% for i in nums %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}", {}),
    # set
    ("{% set x = 'a' %}{{ x }}{% set x, y = 1, 2 %}{{ x }}{{ y }}{% set z = 1, 2 %}{{ z }}", {}),
    ("{% set ns = namespace(n=0, found=false) %}{% for i in nums %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }} {{ ns.found }} {{ ns.zz }}|", {}),
    ("{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns['b'] }}", {}),
    ("{% set text %}\n  hello {{ s }}\n{% endset %}[{{ text }}] {{ text|trim|length }}", {}),
    ("{% set text | upper %}shout {{ s }}{% endset %}{{ text }}", {}),
    ("{% if true %}{% set inside = 5 %}{% endif %}{{ inside }}", {}),
    ("{% with a = 1, b = nums[1] %}{{ a }}{{ b }}{% endwith %}{{ a }}|", {}),
    ("{% filter upper %}quiet {{ s }}{% endfilter %}{% filter trim|upper %}  abc {% endfilter %}", {}),
    # macros
    ("{% macro f(a, b=2, c='x') %}[{{ a }}-{{ b }}-{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(1, c='y') }}{{ f(a=0, b=0) }}", {}),
    ("{% macro f(n) %}{{ n }}{% if n > 0 %},{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(4) }}", {}),
    ("{% macro box(title) %}<{{ title }}>{{ caller() }}</{{ title }}>{% endmacro %}{% call box('b') %}in {{ s }}{% endcall %}", {}),
    ("{% macro each(items) %}{% for i in items %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(x) each(nums) %}({{ x }}){% endcall %}", {}),
    ("{% macro f(a, b) %}{{ a }}{{ b is defined }}{% endmacro %}{{ f(1) }} {{ f(1, none) }}", {}),
    ("{% macro f() %}{{ later }}{% endmacro %}{% set later = 'seen' %}{{ f() }}|{{ f() ~ f() }}", {}),
    ("{% macro f(x) -%}\n  {{ x }}\n{%- endmacro %}{{ f('tight')|upper }}", {}),
    # filters
    ("{{ '  a b '|trim }}| {{ 'xxaxx'|trim('x') }} {{ nums|length }} {{ s|length }} {{ d|count }} {{ missing|length }}", {}),
    ("{{ nums|join }} {{ nums|join(', ') }} {{ people|join('; ', attribute='name') }} {{ ['a', 1, none]|join('-') }}", {}),
    ("{{ 'hello World'|upper }} {{ 'ÀÉ'|lower }} {{ \"hello it's (foo) bar-baz\"|title }} {{ 'hELLO wORLD'|capitalize }} {{ 'straße'|upper }}", {}),
    ("{{ 'a-b-c'|replace('-', '+') }} {{ 'aaa'|replace('a', 'b', 2) }} {{ 'abc'|replace('', '.') }} {{ 123|replace('2', 'x') }}", {}),
    ("{{ missing|default('d') }} {{ ''|default('d') }}| {{ ''|default('d', true) }} {{ none|default('d') }} {{ missing|d }}| {{ 0|d(5, boolean=true) }}", {}),
    ("{{ nums|first }} {{ nums|last }} {{ s|first }} {{ []|first is defined }} {{ 'abc'|list }} {{ d|list }}", {}),
    ("{{ d|items|list }} {{ {'b': 1, 'A': 2, 'c': 0}|dictsort }} {{ {'b': 1, 'A': 2}|dictsort(true) }} {{ {'x': 2, 'y': 1}|dictsort(by='value') }} {{ {'x': 2, 'y': 1}|dictsort(reverse=true) }}", {}),
    ("{{ people|selectattr('age')|map(attribute='name')|list }} {{ people|selectattr('age', 'gt', 30)|map(attribute='name')|join(',') }} {{ people|rejectattr('age', 'equalto', 0)|list|length }}", {}),
    ("{{ nums|map('string')|join('') }} {{ ['a', 'b']|map('upper')|list }} {{ people|map(attribute='zz', default='?')|list }} {{ people|map(attribute='pet.kind')|list }}", {}),
    ("{{ nums|select('odd')|list }} {{ nums|reject('odd')|list }} {{ [0, 1, '', 'a']|select|list }} {{ [1, none]|reject('none')|list }}", {}),
    ("{{ '42'|int }} {{ '42.7'|int }} {{ 'x'|int }} {{ 'x'|int(9) }} {{ 3.9|int }} {{ -3.9|int }} {{ 'ff'|int(0, 16) }} {{ true|int }} {{ ' 7 '|int }}", {}),
    ("{{ '1.5'|float }} {{ 'x'|float }} {{ 2|float }} {{ '1e3'|float }} {{ 'x'|float(0.5) }}", {}),
    ("{{ [1]|string ~ '!' }} {{ ['b', 'a', 'B', 'a']|unique|list }} {{ [3, 1, 2]|sort }} {{ ['b', 'A', 'c']|sort }} {{ ['b', 'A']|sort(case_sensitive=true) }} {{ [1, 3, 2]|sort(reverse=true) }} {{ people|sort(attribute='age')|map(attribute='name')|list }}", {}),
    ("{{ nums|reverse|list }} {{ 'abc'|reverse }} {{ nums|min }} {{ nums|max }} {{ nums|sum }} {{ people|sum(attribute='age') }} {{ []|max is defined }}", {}),
    ("{{ 'a\nb\n\nc'|indent }}| {{ 'a\nb'|indent(2, true) }}| {{ 'a\n\nb'|indent(1, blank=true) }}| {{ 'a\nb\n'|indent('> ') }}|", {}),
    ("{{ 42.55|round }} {{ 42.55|round(1) }} {{ 2.5|round }} {{ 42.1|round(0, 'ceil') }} {{ 42.9|round(method='floor') }} {{ 5|round }} {{ -5|abs }} {{ -1.5|abs }} {{ '<b>'|safe }}", {}),
    ("{{ d|tojson }} {{ 'é<>&\\'\"\\n\\t\\x01'|tojson }} {{ [1, 2.0, none, true, {}, []]|tojson }} {{ {1: 2, 'a': 'b'}|tojson }}", {}),
    ("{{ d|tojson(indent=2) }} {{ []|tojson(indent=4) }} {{ {'b': 1, 'a': {'c': []}}|tojson(indent=1, sort_keys=true) }}", {}),
    ("{{ [1, 2]|tojson(separators=(',', ':')) }} {{ {'a': 1}|tojson(separators=(',', ':')) }}", {}),
    ("{{ 'aé😀\x7f'|tojson(ensure_ascii=true) }} {{ d|tojson(indent='\t') }} {{ d|tojson(true, 0) }}", {}),
    # what Jinja2 has and chat templates seldom use: a filter, a test or a method each
    ("{{ nums|batch(2)|list }} {{ nums|batch(2, 'x')|list }} {{ []|batch(3)|list }} {% for row in nums|batch(3) %}{{ row|join('-') }};{% endfor %}", {}),
    ("{{ nums|slice(3)|list }} {{ nums|slice(2, 'x')|list }} {{ nums|slice(7)|list }} {{ nums|slice(3, none)|list }}", {}),
    ("{% for age, list in people|groupby('pet.kind') %}{{ age }}: {{ list|map(attribute='name')|join(',') }};{% endfor %} {{ people|groupby('age')|first }} {{ [{'a': 'B'}, {'a': 'b'}, {'a': 'A'}]|groupby('a') }} {{ [{'a': 'B'}, {'a': 'b'}]|groupby('a', case_sensitive=true) }}", {}),
    ("{% for g in [{'a': 1}, {}, {'a': 1, 'b': 2}]|groupby('a', default=7) %}{{ g.grouper }}={{ g.list|length }} {{ g[0] }}{{ g[1]|length }} {% endfor %}", {}),
    ("{{ 'a fox and a crow'|truncate(9) }} {{ 'a fox and a crow'|truncate(9, true) }} {{ 'a fox and a crow'|truncate(9, false, '', 0) }} {{ 'a fox and a crow'|truncate(11) }} {{ 'abcdefghij'|truncate(4, leeway=0, end='…') }} {{ 'éééééééééé'|truncate(5, true, leeway=0) }}", {}),
    ("[{{ 'fox'|center(9) }}] [{{ 'fox'|center(8) }}] [{{ 'fo'|center(7) }}] [{{ 7|center(4) }}] [{{ 'fox'|center(2) }}]", {}),
    ("{{ 'a fox, and é-crow_x 12'|wordcount }} {{ ''|wordcount }} {{ 12|wordcount }}", {}),
    ("{{ 1|filesizeformat }} {{ 999|filesizeformat }} {{ 1000|filesizeformat }} {{ 123456789|filesizeformat }} {{ 123456789|filesizeformat(true) }} {{ 0|filesizeformat }} {{ 1.5e15|filesizeformat }} {{ 1024|filesizeformat(binary=true) }}", {}),
    ("{{ 'a b/c?é&'|urlencode }} {{ {'a b': 'c/d', 'é': 1}|urlencode }} {{ [('a', 'b c')]|urlencode }} {{ 12|urlencode }}", {}),
    ("{{ '<a href=\"x\">&\\'</a>'|e }} {{ '<'|escape }} {{ '&lt;'|forceescape }} {{ none|e }} {{ 5|e }}", {}),
    ("{{ '%s is %d'|format('Ann', 31) }} {{ '%(name)s!'|format(name='Bob') }} {{ 'plain'|format }}", {}),
    ("{{ '%s %r %d %i %5d|%-5d|%05d|%+d|% d' % ('a', 'b', 3.9, 4, 5, 6, 7, 8, 9) }} {{ '%x %X %o %#x %#o %c %c' % (255, 255, 8, 255, 8, 65, 'z') }}", {}),
    ("{{ '%.2f %8.3f|%-8.1f|%08.2f %e %g %G %.3e' % (3.14159, 2.5, 2.25, -1.5, 12345.678, 0.00001, 1e20, 5) }} {{ '%5s|%-5s|%.2s|%%' % ('ab', 'cd', 'efg') }} {{ '%*d|%.*f' % (5, 3, 2, 1.005) }}", {}),
    ("{{ '%s' % [1, 2] }} {{ '%s' % none }} {{ '%s' % d }} {{ '%(a)s %(é)s' % d }} {{ '%s' % (nums,) }} {{ '%.3d|%+.3d|%6.3d' % (5, 5, -5) }} {{ '%5.1f%%' % 99.55 }} {{ '100%' }} {{ 'x%sy' % u }}", {}),
    ("{{ '{} {}'.format(1, 'b') }} {{ '{1} {0}'.format('a', 'b') }} {{ '{x} {y}'.format(x=1, y=2) }} {{ '{{}}'.format() }} {{ '{0.name} {1[a]} {2[0]}'.format(people[0], d, nums) }} {{ '{!r} {!s}'.format('q', 'q') }}", {}),
    ("{{ '{:>5}|{:<5}|{:^5}|{:*^7}|{:é>4}'.format('a', 'b', 'c', 'd', 'e') }} {{ '{:5}|{:05}|{:+}|{: }|{:,}|{:_}'.format(1, 2, 3, 4, 1234567, 1234567) }} {{ '{:b} {:o} {:x} {:X} {:#b} {:#x} {:c}'.format(5, 8, 255, 255, 5, 255, 65) }}", {}),
    ("{{ '{:.2f}|{:8.3f}|{:e}|{:g}|{:.1%}|{:,.2f}|{:.3}|{:10.4}|{}'.format(3.14159, 2.5, 12345.678, 0.0001, 0.256, 1234567.891, 2.0, 1234.5678, 1e16) }} {{ '{:.2}|{:5.1}|{:s}'.format('abc', 'def', 'g') }} {{ '{:{}}|{:>{w}}'.format('a', 4, 'b', w=3) }} {{ '{}'.format(none) }} {{ '{}'.format(true) }} {{ '{:d}'.format(true) }} {{ '{:.0f} {:.1f}'.format(2.5, 0.25) }}", {}),
    ("{{ '{a}-{b}'.format_map({'a': 1, 'b': 'x'}) }} {{ '{:=+5}|{:<05}|{:08.3f}|{:+.1e}|{:%}'.format(3, 4, -3.14159, 12345.6, 0.5) }}", {}),
    ("{{ 'fox'.center(8, '*') }} {{ 'fo'.center(7) }}| {{ 'fox'.ljust(5) }}| {{ 'fox'.rjust(5, '.') }} {{ '42'.zfill(5) }} {{ '-42'.zfill(5) }} {{ '+é'.zfill(4) }} {{ 'abc'.zfill(2) }}", {}),
    ("{{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('-') }} {{ 'abc'.rpartition('-') }} {{ 'unhappy'.removeprefix('un') }} {{ 'foxes'.removesuffix('es') }} {{ 'x'.removeprefix('y') }}", {}),
    ("{{ 'aBÉ ß'.swapcase() }} {{ 'Straße ΣΑΣ'.casefold() }} {{ 'a\tb\tc\n\td'.expandtabs() }}| {{ 'a\tb'.expandtabs(4) }}| {{ 'a\nb\r\nc'.splitlines(true) }} {{ 'a\n\n'.splitlines(keepends=true) }}", {}),
    ("{{ 'é'.isalpha() }} {{ 'a1'.isalpha() }} {{ ''.isalpha() }} {{ 'a1é'.isalnum() }} {{ 'a b'.isalnum() }} {{ '½'.isalnum() }} {{ 'é'.isascii() }} {{ ''.isascii() }} {{ '٣'.isdecimal() }} {{ '²'.isdecimal() }} {{ '²'.isdigit() }} {{ '½'.isdigit() }} {{ '½'.isnumeric() }} {{ '五'.isnumeric() }}", {}),
    ("{{ ' \t\n'.isspace() }} {{ ''.isspace() }} {{ 'AB1'.isupper() }} {{ 'Ab'.isupper() }} {{ '1'.isupper() }} {{ 'ab é'.islower() }} {{ 'aB'.islower() }} {{ 'A Fox'.istitle() }} {{ 'A fox'.istitle() }} {{ 'AB'.istitle() }} {{ 'a_1'.isidentifier() }} {{ '1a'.isidentifier() }} {{ 'a b'.isprintable() }} {{ 'a\nb'.isprintable() }}", {}),
    ("{{ 'banana'.find('an', 2) }} {{ 'banana'.find('an', 2, 4) }} {{ 'banana'.rfind('an', 0, 4) }} {{ 'banana'.index('n') }} {{ 'banana'.rindex('n') }} {{ 'banana'.count('a', 2) }} {{ 'banana'.count('a', -3, -1) }} {{ 'banana'.startswith('na', 2) }} {{ 'banana'.endswith('na', 0, 4) }} {{ 'abc'.find('', 3) }} {{ 'abc'.find('', 4) }} {{ 'éxé'.find('é', 1) }}", {}),
    ("{{ d.copy() }} {{ nums.copy() }} {{ (1, 2, 1).count(1) }} {{ (3, 4).index(4) }} {{ dict([('a', 1), ('b', 2)], c=3) }}", {}),
    ("{{ 'upper' is filter }} {{ 'nofilter' is filter }} {{ 'odd' is test }} {{ 'x' is test }} {{ 'x' is escaped }} {{ nums|select('>=', 3)|list }} {{ nums|select('<=', 2)|list }} {{ 2 is ge 2 }} {{ 2 is lessthan 3 }} {{ 2 is greaterthan 3 }} {{ 1 is sameas 1 }} {{ none is sameas none }}", {}),
    ("{% for p in [{'n': 1, 'kids': [{'n': 2, 'kids': [{'n': 3}]}, {'n': 4}]}, {'n': 5}] recursive %}{{ p.n }}@{{ loop.depth }}/{{ loop.depth0 }}{% if p.kids %}[{{ loop(p.kids) }}]{% endif %}{% if not loop.last %},{% endif %}{% endfor %}", {}),
    ("{% for p in [1, [2, [3]], 4] if p recursive %}{% if p is iterable %}({{ loop(p) }}){% else %}{{ p }}{% endif %}{% else %}none{% endfor %} {% for x in [] recursive %}{{ loop([]) }}{% else %}empty{% endfor %}", {}),
    ("{% for x in [1, 1, 2, 2, 1] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %} {% for x in 'aab' %}{{ loop.changed(x, 1) }}{{ loop.depth }}{% endfor %}", {}),
    ("{% for x in 1, 2, 3 %}{{ x }}{% endfor %} {% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %} {% set (a, b), c = (1, 2), 3 %}{{ a }}{{ b }}{{ c }} {% for (k, v) in d|items %}{{ k }}{% endfor %}", {}),
    ("{% macro f(a, b=2) %}{{ a }}-{{ b }}-{{ varargs }}-{{ kwargs }}{% endmacro %}{{ f(1) }} {{ f(1, 2, 3, 4) }} {{ f(1, x=5) }} {{ f(*[1, 2, 3]) }} {{ f(*[1], **{'b': 7, 'y': 8}) }} {{ f(1, *(5, 6), z=1) }}", {}),
    ("{{ range(*[1, 4])|list }} {{ dict(**{'a': 1}) }} {{ 'a,b,c'.split(*[',', 1]) }} {{ 'abc'|replace(*['b', 'x']) }} {{ nums|join(**{'d': '-'}) }} {{ 4 is divisibleby(*[2]) }}", {}),
    ("{% macro box(title) %}[{{ title }}:{{ caller(1, 2) }}]{% endmacro %}{% call(a, b) box('t') %}{{ a }}{{ b }}{% endcall %}{% macro opt() %}{{ caller() if caller else 'alone' }}{% endmacro %}{{ opt() }}{% call opt() %}with{% endcall %}", {}),
    ("{% set j = joiner('; ') %}{{ j() }}{{ j() }}{{ j() }}{% set k = joiner() %}{{ k() }}{{ k() }} {% set c = cycler('a', 'b') %}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}", {}),
    ("{{ none|upper }} {{ none|lower }} {{ none|trim }} {{ none|title }} {{ none|capitalize }} {{ none|string }} {{ none|replace('N', 'x') }} {{ none|default('x') }} {{ none|default('x', true) }} {{ none|int }} {{ none|float }} {{ none|tojson }} {{ none|wordcount }} {{ none|center(6) }} {{ none|urlencode }} {{ none|safe }} {{ none|int(7) }} {{ none|pprint if false else 1 }}", {}),
    ("{{ missing|upper }}|{{ missing|trim }}|{{ missing|list }}|{{ missing|join(',') }}|{{ missing|first }}|{{ missing|length }}|{{ none|map('upper')|list }}|{{ 0|select|list }}|{{ none|rejectattr('x')|list }}|{{ missing|replace('a', 'b') }}|{{ missing|map('upper')|list }}|{{ missing|sort }}|{{ missing|sum }}|{{ missing|items|list }}|{{ missing|unique|list }}|{{ missing|reverse|list if false else '' }}|{{ missing|batch(2)|list }}|{{ missing|groupby('x') }}|{{ missing|wordcount }}|{{ missing|default(1) }}", {}),
    ("{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ -7.5 // 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2.0 ** 0.5 }} {{ 7 / 2 }} {{ 4 / 2 }} {{ 1e16 }} {{ 1e15 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ 0.0001 }} {{ -0.0 }} {{ 1.0 }} {{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1.5e3 }} {{ true + 1 }} {{ 9223372036854775807 }} {{ -9223372036854775807 }}", {}),
    ("{{ '0x1f'|int(base=16) }} {{ '1f'|int(base=16) }} {{ '0b11'|int(base=2) }} {{ '1_000'|int }} {{ '1__0'|int }} {{ ' 42 '|int }} {{ '-3'|int }} {{ '3.9'|int }} {{ 'x'|int(-1) }} {{ '1e3'|int }} {{ '1_0.5'|float }} {{ 'inf'|float }} {{ '1e400'|float }} {{ 'nan'|float }} {{ 1e400 if false else 0 }} {{ true|int }} {{ 3.99|int }} {{ -3.99|int }}", {}),
    ("{{ 1234.5|round(-2) }} {{ 1250|round(-2) }} {{ 1350|round(-2) }} {{ 3.5|round }} {{ 0.5|round }} {{ 1.5|round|int }} {{ 2.675|round(2) }} {{ 10|round(1) }} {{ -2.5|round }} {{ 1e20|round }} {{ 7|round(0, 'floor') }} {{ 2.345|round(2, 'ceil') }}", {}),
    ("{{ [1.0, 2, 'a', none, true, [1], {'k': (1, 2)}] }} {{ (1,) }} {{ () }} {{ {} }} {{ {'a': 'it\\'s'} }} {{ ['\\n', 'é', '\x00'] }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1, 2) == [1, 2] }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' in 'abc' }} {{ 'x' not in d }}", {}),
    ("{{ [1, 2] + [3] }} {{ (1,) + (2,) }} {{ [0] * 3 }} {{ 'ab' * 2 }} {{ 2 * 'ab' }} {{ 'a' ~ 1 ~ none ~ true }} {{ nums[::-1] }} {{ nums[1:-1] }} {{ nums[-2:] }} {{ 'abcdef'[::2] }} {{ 'abc'[-1] }} {{ nums[9] is defined }} {{ nums[1:][0] }} {{ u[1:3] }}", {}),
    ("{% with a = 1, b = a %}{{ b }}{% endwith %} {% set ns = namespace(n=0) %}{% for x in nums if x is odd %}{% set ns.n = ns.n + x %}{% else %}e{% endfor %}{{ ns.n }} {% filter upper|replace('A', 'x') %}ab{% endfilter %} {% set t | trim | upper %} q {% endset %}{{ t }} {% raw %}{{ x }}{% endraw %} {% for x in nums %}{% if x == 2 %}{% continue %}{% elif x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}", {}),
    ("{% for x in nums %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }};{% endfor %}", {}),
    ("{{ 'a'|safe + '<b>' }} {{ '<'|safe ~ '<' }} {{ ('<'|e) + '<' }} {{ '<'|e|e }} {{ '<'|e|forceescape }} {{ ('a<'|safe)[1] + '<' }} {{ ('a<'|safe)[::-1] + '<' }} {{ ('<a'|safe)|upper + '<' }} {{ ('<'|safe|replace('<', '>')) + '<' }} {{ ['<'|safe, '<']|join }} {{ '<' + ('>'|safe) }} {{ 'x'|safe is escaped }} {{ ('<'|safe) * 2 + '<' }} {{ (' < '|safe|trim) + '<' }} {{ ('a,<'|safe).split(',')[1] + '<' }} {{ ('a b'|safe|title) + '<' }} {{ ('<'|safe|string) + '<' }} {{ ('<'|safe)|list|first + '<' }} {{ ('<'|safe).strip() + '<' }} {{ '<'|safe == '<' }} {{ '<\"'|safe|tojson }} {{ (7|safe) + '<' }}", {}),
    # tests
    ("{{ missing is defined }} {{ s is defined }} {{ missing is undefined }} {{ none is none }} {{ 0 is none }} {{ s is string }} {{ 1 is string }}", {}),
    ("{{ d is mapping }} {{ nums is mapping }} {{ nums is iterable }} {{ s is iterable }} {{ 1 is iterable }} {{ nums is sequence }} {{ d is sequence }} {{ (1,) is sequence }}", {}),
    ("{{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is float }} {{ true is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }}", {}),
    ("{{ 3 is odd }} {{ 3 is even }} {{ 4 is divisibleby(2) }} {{ 4 is divisibleby 3 }} {{ 1 is eq 1 }} {{ 1 is equalto(2) }} {{ 1 is ne 2 }} {{ 2 is gt 1 }} {{ 1 is in [1] }} {{ 'a' is lower }} {{ 'A' is upper }}", {}),
    ("{{ s is not defined }} {{ missing is not defined }} {{ not missing is defined }} {{ 1 is not none and 2 is number }} {{ range is callable }}", {}),
    # methods
    ("{{ ' a '.strip() }}|{{ ' a'.lstrip() }}|{{ 'a '.rstrip() }}|{{ 'xyax'.strip('xy') }} {{ 'a,b,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b c'.rsplit(' ', 1) }}", {}),
    ("{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'Ab'.upper() }} {{ 'Ab'.lower() }} {{ \"they're bill's\".title() }} {{ 'aB c'.capitalize() }}", {}),
    ("{{ 'abab'.replace('a', 'x') }} {{ 'abab'.replace('a', 'x', 1) }} {{ 'abc'.find('c') }} {{ 'abc'.find('z') }} {{ 'éaéa'.find('a') }} {{ 'abab'.rfind('b') }} {{ 'banana'.count('an') }} {{ '-'.join(['a', 'b']) }}", {}),
    ("{{ 'a\\nb\\r\\nc'.splitlines() }} {{ ''.split(',') }} {{ ''.split() }} {{ '12'.isdigit() }} {{ 'ab'.isalpha() }} {{ [1, 2, 1].count(1) }} {{ [5, 6].index(6) }}", {}),
    ("{{ u.split('b') }} {{ u.upper() }} {{ u.strip('é') }}", {}),
    # functions
    ("{{ dict(a=1, b='x') }} {{ dict({'q': 1}, r=2) }} {{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %b %Y') }}", {}),
    # combinations that templates in the wild rely on
    ("{{ messages|map(attribute='role')|list }} {{ (messages|selectattr('role', 'eq', 'user')|list)[-1].content }}", {"messages": [SYSTEM, USER]}),
    ("{% set loop_messages = messages[1:] if messages[0].role == 'system' else messages %}{{ loop_messages|length }}", {"messages": [SYSTEM, USER]}),
    ("{%- for m in messages -%}{%- set c = m.content if m.content is string else m.content|map(attribute='text')|join('\n') -%}{{ m.role }}: {{ c }};{%- endfor -%}",
     {"messages": [USER, {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}]}),
    ("{{ messages[0]['content'].split('\n')[0].strip().replace('  ', ' ') + '!' }}", {"messages": [SYSTEM]}),
    ("{%- set x = 'a' %}{%- if x == 'a' and (s or missing) and not missing %}ok{% endif -%}", {}),
    ("{{ (nums|length > 3 and 'many') or 'few' }} {{ nums|length - 1 }} {{ nums|sum / nums|length }}", {}),
    ("{% if people|selectattr('age', 'gt', 900) %}generators are true{% endif %}{% if [] %}lists are not{% endif %}", {}),
    ("{{ {'a': {'b': [10, {'c': 'deep'}]}}.a.b[1]['c'] }} {{ ({'x': 1}).x }} {{ 'lit'.upper()[0] }}", {}),
]

# Templates that must fail in both.
FAILURES = [
    ("{{ raise_exception('no!') }}", {}), ("{{ missing.attr }}", {}), ("{{ 1 + 'a' }}", {}), ("{{ missing + 1 }}", {}),
    ("{{ 1 / 0 }}", {}), ("{{ 'a' < 1 }}", {}), ("{% for a, b in [(1, 2, 3)] %}{% endfor %}", {}),
    ("{{ nofunction() }}", {}), ("{{ 'x'|nofilter }}", {}), ("{{ 1 is notest }}", {}), ("{% if %}{% endif %}", {}),
    ("{% for x in 5 %}{% endfor %}", {}), ("{{ (1 }}", {}), ("{% endif %}", {}), ("{% if 1 %}", {}), ("{{ 'open }}", {}),
    ("{# open", {}), ("{{ 1", {}), ("{% nonsense %}", {}), ("{% set d.x = 1 %}", {}), ("{{ nums|map('upper', 1)|list }}", {}),
    ("{{ 5|length }}", {}), ("{{ [1]|tojson|nofilter }}", {}), ("{{ ] }}", {}), ("{{ a b }}", {}), ("{{ }}", {}),
    ("{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", {}), ("{{ missing|tojson }}", {}), ("{{ none + 'x' }}", {}),
    ("{{ nums[::0] }}", {}), ("{% break %}", {}), ("{{ d|dictsort|nofilter }}", {}), ("{{ none|items|list }}", {}),
    ("{{ none|length }}", {}), ("{{ none|indent }}", {}), ("{{ 5|indent }}", {}), ("{{ none|list }}", {}), ("{{ none|first }}", {}), ("{{ none|join }}", {}), ("{{ none|sort }}", {}), ("{{ none|sum }}", {}),
    ("{{ missing|int }}", {}), ("{{ missing|float }}", {}), ("{{ missing|abs }}", {}), ("{{ 5|map('upper')|list }}", {}), ("{{ none|abs }}", {}), ("{{ none|round }}", {}), ("{{ none|batch(2)|list }}", {}), ("{{ none|truncate }}", {}), ("{{ none|filesizeformat }}", {}),
    ("{{ '%d' % 'x' }}", {}), ("{{ '%s %s' % 'x' }}", {}), ("{{ '%s' % (1, 2) }}", {}), ("{{ 'x' % 1 }}", {}), ("{{ '%(q)s' % d }}", {}), ("{{ '%y' % 1 }}", {}), ("{{ '%' % 1 }}", {}),
    ("{{ '{}'.format() }}", {}), ("{{ '{x}'.format(y=1) }}", {}), ("{{ '{'.format(1) }}", {}), ("{{ '}'.format(1) }}", {}), ("{{ '{:d}'.format('x') }}", {}), ("{{ '{:>5}'.format(none) }}", {}),
    ("{{ '{0} {}'.format(1, 2) }}", {}), ("{{ '{:.2d}'.format(1) }}", {}), ("{{ '{:x}'.format(1.5) }}", {}), ("{{ '{.nope}'.format(1) }}", {}),
    ("{% for x in nums %}{{ loop(nums) }}{% endfor %}", {}), ("{% macro f(a) %}{{ a }}{% endmacro %}{% call f(1) %}x{% endcall %}", {}),
    ("{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, b=2) }}", {}), ("{% macro f(a) %}{{ a }}{% endmacro %}{{ f(*[1], **{'a': 2}) }}", {}), ("{{ dict(**5) }}", {}), ("{{ range(*5) }}", {}),
    ("{{ 'abc'.index('z') }}", {}), ("{{ 'abc'.partition('') }}", {}), ("{{ 'a'.center(5, 'xy') }}", {}), ("{{ 'abc'|truncate(1) }}", {}), ("{{ 'a b'.nope() }}", {}), ("{{ nums.append(1) }}", {}), ("{{ d.update({}) }}", {}), ("{{ nums|slice(0)|list }}", {}),
    ("{{ cycler() }}", {}), ("{{ 5() }}", {}), ("{{ 'a' - 1 }}", {}), ("{{ d + d }}", {}), ("{{ [1] * 'a' }}", {}), ("{{ none < 1 }}", {}), ("{{ [] < {} }}", {}),
]

ITEMS = {
    "s": "string", "u": "éb😀x", "nums": [1, 2, 3, 4, 5], "d": {"a": 1, "list": [1, 2], "é": "ü"},
    "pairs": [[1, 2], [3, 4]],
    "people": [{"name": "Ann", "age": 31, "pet": {"kind": "cat"}}, {"name": "bob", "age": 0, "pet": {"kind": "dog"}},
               {"name": "Cy", "age": 62, "pet": {"kind": "eel"}}],
}


class Generation(Extension):
    """{% generation %}: its body, as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def strftime_now(pattern):
        return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(pattern)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def case(env, name, template, context):
    made = {"name": name, "template": template, "context": context}
    try:
        made["expected"] = env.from_string(template).render(**context)
    except Exception as error:  # noqa: BLE001: whatever Python raises, the C++ side must refuse as well
        made["error"] = f"{type(error).__name__}: {error}"
    return made


def numbered(cases, field):
    """What the cases have in a field, each once; they have its number in its place."""
    rows, seen = [], {}
    for one in cases:
        text = json.dumps(one[field], ensure_ascii=False)
        if text not in seen:
            seen[text] = len(rows)
            rows.append(one[field])
        one[field] = seen[text]
    return rows


def main():
    env = environment()
    cases = []
    for name, template in MODELS.items():
        for i, messages in enumerate(CHATS):
            for prompt in (True, False):
                tools = TOOLS if i >= 4 else None
                context = {"messages": messages, "tools": tools, "add_generation_prompt": prompt, "bos_token": "<s>",
                           "eos_token": "</s>"}
                if i == 3:
                    context["enable_thinking"] = False
                cases.append(case(env, f"{name}_{i}_{'prompt' if prompt else 'plain'}", template, context))
    cases.append(case(env, "schema_macro", SCHEMA_MACRO, {"tools": TOOLS}))
    for i, (template, context) in enumerate(FEATURES):
        cases.append(case(env, f"feature_{i}", template, ITEMS | context))
        if "error" in cases[-1]:
            raise SystemExit(f"{template}\n{cases[-1]['error']}")
    for i, (template, context) in enumerate(FAILURES):
        cases.append(case(env, f"failure_{i}", template, ITEMS | context))
        if "error" not in cases[-1]:
            raise SystemExit(f"{template} does not fail")
    out = pathlib.Path(__file__).parent / "fixtures" / "jinja_cases.json"
    count = f"{len(cases)} cases, {sum('error' in c for c in cases)} of them errors"
    templates, contexts = numbered(cases, "template"), numbered(cases, "context")
    lines = lambda rows: ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    out.write_text(f'{{"now":{NOW},"templates":[\n{lines(templates)}\n],"contexts":[\n{lines(contexts)}\n],'
                   f'"cases":[\n{lines(cases)}\n]}}\n')
    print(count)


if __name__ == "__main__":
    main()

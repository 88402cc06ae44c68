#!/usr/bin/env python3
"""Finds names that two files of one program define: the linker keeps one of two inline functions or destructors, and
says nothing.

Looks at what is defined in namespaces, and not in anonymous ones: types and functions, and aliases that mean two
things. Files under tests/, bench/ and fuzz/ are programs of their own, one for each folder, with all of src/ in each.
"""
import pathlib
import re
import sys
from collections import defaultdict

FOLDERS = ("include", "src", "tests", "bench", "fuzz")
SUFFIXES = (".h", ".cpp", ".cu", ".cuh")
# Compiled in the place of the others of its folder.
ALTERNATIVES = ("src/backend/cuda/without_cuda.cpp",)

SKIPPED = re.compile(
    r"""//[^\n]* | /\*.*?\*/
      | R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"
      | "(?:[^"\\\n]|\\.)*" | (?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+'
      | ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*""", re.S | re.X | re.M)
NAMESPACE = re.compile(r"^(?:inline )?namespace ?(?P<name>[\w:]*)$")
TYPE = re.compile(r"(?:^|> )(?P<kind>class|struct|union|enum(?: class| struct)?) (?:alignas ?\([^)]*\) )?"
                  r"(?:\[\[[^\]]*\]\] )?(?P<name>[A-Za-z_]\w*(?:::\w+)*)(?P<args> ?<.*>)?(?: final)?(?: ?:(?!:).*)?$")
FUNCTION = re.compile(r"(?P<name>(?:[\w~]+(?:<[^()]*>)?::)*(?:operator ?(?:\(\)|[^\s\w(]+|[\w:]+)|~?\w+)) ?\((?P<rest>.*)$")
ALIAS = re.compile(r"^(?:template ?<.*> ?)?using (?P<name>\w+) ?= ?(?P<what>.+)$")
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "decltype", "alignas", "noexcept", "requires", "static_assert"}


def without_templates(head):
    """The head of a definition without template <...> and requires before it."""
    while head.startswith("template"):
        depth = 0
        for i, c in enumerate(head):
            depth += (c == "<") - (c == ">" and head[i - 1] != "-")
            if c == ">" and depth == 0:
                head = head[i + 1:].strip()
                break
        else:
            return head
    return head


def parameters(rest):
    """The types among the parameters of a function's head, as one text: names and defaults are left out."""
    depth, out, one = 1, [], ""
    for c in rest:
        depth += (c in "(<[") - (c in ")>]")
        if depth == 0:
            break
        if c == "," and depth == 1:
            out.append(one)
            one = ""
        else:
            one += c
    out.append(one)
    types = []
    for text in out:
        text = text.split("=")[0].strip()
        words = re.match(r"^(.*[\s&*>])\w+((?:\[\d*\])?)$", text)
        if words and words.group(1).strip() not in ("const", "unsigned", "struct"):
            text = words.group(1).strip() + words.group(2)
        types.append(re.sub(r"\s+", "", text))
    return ",".join(types), rest[len(",".join(out)) + 1:]


def definitions_in(text):
    """Yields (kind, qualified name, what it is) for each definition in a named namespace."""
    text = SKIPPED.sub(lambda match: "\n" if match.group().lstrip().startswith("#") else " \"\" " if match.group()[0] in "\"R'" else " ", text)
    scopes, hidden, begin, at = [], 0, 0, 0
    while at < len(text):
        c = text[at]
        if c in ";{}":
            head = re.sub(r"\s+", " ", text[begin:at]).strip()
            if c == "{" and head.count("(") > head.count(")"):  # an argument or a default
                at = skip_block(text, at)
                continue
            if c == "{":
                space = NAMESPACE.match(head)
                if space:
                    scopes.append(space["name"])
                    hidden += space["name"] == ""
                    at, begin = at + 1, at + 1
                    continue
                if not hidden:
                    yield from definition(head, scopes)
                at = skip_block(text, at)
                # What follows a block belongs to it up to the next sign: "} name;" or an initializer's ", b_{1} {".
                following = re.match(r"\s*(?:,|;|\(|\w+\s*;)?", text[at:])
                begin = at + (following.end() if following.group().strip() in (";",) else 0)
                at = begin
                continue
            if c == "}" and scopes:
                hidden -= scopes.pop() == ""
            elif c == ";" and not hidden:
                alias = ALIAS.match(head)
                if alias:
                    yield "alias", "::".join(scopes + [alias["name"]]), re.sub(r"\s", "", alias["what"])
            begin = at + 1
        at += 1


def definition(head, scopes):
    plain = re.sub(r"\[\[[^\]]*\]\] ?", "", without_templates(head))
    name = TYPE.search(plain)
    if name and "(" not in plain.split(":")[0]:
        yield "type", "::".join(scopes + [name["name"] + re.sub(r"\s", "", name["args"] or "")]), head
        return
    if not plain or "=" in plain.split("(")[0].replace("operator==", "").replace("operator=", "") or plain.startswith("static "):
        return
    function = FUNCTION.search(plain)
    if function and function["name"] not in KEYWORDS and (scopes or function["name"] != "main"):
        types, behind = parameters(function["rest"])
        const = " const" if re.match(r"\s*const\b", behind) else ""
        wanted = re.search(r"requires .*$", head[:len(head) - len(plain)] or behind)  # overloads by constraint
        yield ("function", "::".join(scopes + [re.sub(r"\s", "", function["name"])]) + f"({types}){const}",
               (wanted.group() if wanted else "") + ("template" if head.startswith("template") else ""))


def skip_block(text, at):
    depth = 0
    while at < len(text):
        depth += (text[at] == "{") - (text[at] == "}")
        at += 1
        if depth == 0:
            break
    return at


def programs(name):
    """Of which program a file is a part: '' of all."""
    parts = name.split("/")
    if parts[0] in ("include", "src") or parts[:2] == ["tests", "support"]:
        return ""
    return "/".join(parts[:2])


def problems_in(files):
    """files: name -> text."""
    found = defaultdict(set)  # (program, name) -> {(file, kind, what)}
    for name, text in files.items():
        if name in ALTERNATIVES:
            continue
        for kind, qualified, what in definitions_in(text):
            found[qualified].add((name, kind, what))
    for qualified, places in sorted(found.items()):
        for first, second in clashes(sorted(places)):
            yield f"{qualified} is defined in {first} and in {second}"


def clashes(places):
    for i, (file, kind, what) in enumerate(places):
        for other, other_kind, other_what in places[i + 1:]:
            together = programs(file) == programs(other) or "" in (programs(file), programs(other))
            same = kind == other_kind and what == other_what
            if file == other or not together:
                continue
            if "alias" in (kind, other_kind):  # of two aliases each may say the same
                if not same:
                    yield file, other
            elif kind != "function" or same:
                yield file, other


def self_test():
    def clash(*texts, names=("src/a/x.h", "src/b/y.h")):
        return len(list(problems_in(dict(zip(names, texts)))))

    def in_kvasir(text):
        return "#pragma once\nnamespace kvasir {\n" + text + "\n}  // namespace kvasir\n"

    document = in_kvasir("// A parsed file.\nclass JsonDocument {\n public:\n  JsonDocument(int a) { f(); }\n};")
    other = in_kvasir("struct Before {};\nclass JsonDocument final : public Base<int> {\n};")
    assert clash(document, other) == 1
    assert clash(document, in_kvasir("class JsonDocument;\nvoid f(JsonDocument d);")) == 0, "declared only"
    assert clash(document, in_kvasir("namespace {\nclass JsonDocument {};\n}")) == 0, "a file's own"
    assert clash(document, in_kvasir("namespace b {\nclass JsonDocument {};\n}")) == 0, "another namespace"
    assert clash(document, in_kvasir("struct Outer {\n  class JsonDocument {};\n};")) == 0, "a member of another"
    assert clash(document, in_kvasir('const char* f() { return R"(}{ class X {)"; }\nclass JsonDocument {};')) == 1
    assert clash(document, in_kvasir("using JsonDocument = std::string;")) == 1, "a name that means two things"
    assert clash(in_kvasir("using Text = std::string;"), in_kvasir("using Text = std::string;")) == 0
    assert clash(in_kvasir("using Text = std::string;"), in_kvasir("using Text = std::string_view;")) == 1
    twice = in_kvasir("inline int half(int x) { return x / 2; }")
    assert clash(twice, in_kvasir("int half(int y)\n{ return 0; }")) == 1
    assert clash(twice, in_kvasir("inline int half(double y) { return 0; }")) == 0, "an overload"
    assert clash(twice, in_kvasir("int half(int y);")) == 0
    assert clash(twice, in_kvasir("static int half(int y) { return 1; }")) == 0
    assert clash(in_kvasir("enum class Kind { kA };"), in_kvasir("enum class Kind : int { kB };")) == 1
    assert clash(in_kvasir("template <class T>\nclass Box {};"), in_kvasir("template <>\nclass Box<int> {};")) == 0
    assert clash(in_kvasir("A::A(int x) : a_{x}, b_(x) {}"), in_kvasir("A::A(int y) : a_{1} { run(); }")) == 1
    assert clash(in_kvasir("class A {\n  struct Inner;\n};"), in_kvasir("struct A::Inner {\n};")) == 0
    assert clash(in_kvasir("int f(const L& l = {});"), in_kvasir("int f(const L& l) { return 1; }")) == 0
    mine = in_kvasir("struct Ran {};")
    assert clash(mine, mine, names=("tests/a/x.h", "tests/b/y.h")) == 0, "two programs"
    assert clash(mine, mine, names=("tests/a/x.h", "tests/a/y.h")) == 1
    assert clash(mine, mine, names=("tests/a/x.h", "src/b/y.h")) == 1
    assert clash(mine, mine, names=("src/backend/cuda/without_cuda.cpp", "src/backend/cuda/y.cpp")) == 0


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1])
    files = {path.relative_to(root).as_posix(): path.read_text(errors="replace")
             for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in SUFFIXES}
    found = list(problems_in(files))
    print("\n".join(found) or f"no name is defined twice in {len(files)} files")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

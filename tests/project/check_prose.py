#!/usr/bin/env python3
"""Markdown is prose for people: lines have at most 120 columns outside tables and code, and nothing points nowhere.

Every relative link must lead to a tracked file, and its #anchor to a heading there. A `path/of/the/tree` in backticks
must exist, too, wherever it begins with a folder of the root, and so must what a table's column "file" or "folder"
names beside its page. The README has at most 100 lines of 100 columns, and bench/RESULTS.md at most 200 lines: what
does not fit belongs into docs/ and bench/notes/."""
import os
import pathlib
import re
import subprocess
import sys

WIDEST = 120
PAGES = {"README.md": (100, 100), "bench/RESULTS.md": (200, WIDEST)}  # lines, columns
FENCE = re.compile(r"\s*(```|~~~)")
LIST_ITEM = re.compile(r"\s*([-*+]|\d+[.)])\s")
LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?\)|^\[[^\]]+\]:[ \t]+(\S+)", re.MULTILINE)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[a-z0-9_.-]+(/[A-Za-z0-9_.-]+)+/?")
PLACEHOLDER = re.compile(r"[A-Z]{3,}(?!\w*\.md)|…|\.\.\.")


def kinds_of(lines):
    """For each line "prose", "table" or "code": what is fenced, or indented by four after a blank, in no list."""
    fenced, code, in_list, blank = False, False, False, True
    for line in lines:
        if FENCE.match(line):
            fenced = not fenced
            yield "code"
            continue
        if fenced:
            yield "code"
            continue
        if not line.strip():
            blank = True
            yield "prose"
            continue
        code = line.startswith(("    ", "\t")) and (code or (blank and not in_list))
        if not line.startswith(" ") or LIST_ITEM.match(line):
            in_list = bool(LIST_ITEM.match(line)) and not code
        blank = False
        yield "code" if code else "table" if line.lstrip().startswith("|") else "prose"


def anchors_of(text):
    """The names that links give to headings: as GitHub makes them."""
    lines = text.splitlines()
    seen = {}
    for line, kind in zip(lines, kinds_of(lines)):
        if kind == "prose" and re.match(r"#{1,6} ", line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip())
            name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            count = seen.get(name, 0)
            seen[name] = count + 1
            yield f"{name}-{count}" if count else name


def width_problems(name, text):
    lines = text.splitlines()
    most_lines, most_columns = PAGES.get(name, (None, WIDEST))
    if most_lines and len(lines) > most_lines:
        yield f"{name}: {len(lines)} lines, at most {most_lines}"
    for number, (line, kind) in enumerate(zip(lines, kinds_of(lines)), 1):
        bound = most_columns if kind == "prose" or most_columns < WIDEST else None
        if bound and len(line) > bound:
            yield f"{name}:{number}: {len(line)} columns, at most {bound}: wrap it"


class Tree:
    """All files, by path; the text of those that are pages."""

    def __init__(self, files):
        self.files = files
        self.folders = {str(parent) for path in files for parent in pathlib.PurePosixPath(path).parents}
        self.roots = {folder for folder in self.folders if "/" not in folder and folder != "."}
        self.stems = {path.rsplit(".", 1)[0] for path in files}  # `src/kv/cache` means cache.h and cache.cpp
        self.anchors = {path: set(anchors_of(text)) for path, text in files.items() if text is not None}

    def has(self, path):
        return path in self.files or path in self.folders

    def names(self, span):
        """Whether this is written as a path of the tree."""
        return PATH.fullmatch(span) and span.split("/")[0] in self.roots and not PLACEHOLDER.search(span)


def link_problems(name, text, tree):
    lines = text.splitlines()
    prose = "\n".join("" if kind == "code" else line for line, kind in zip(lines, kinds_of(lines)))
    at = lambda match: f"{name}:{prose.count(chr(10), 0, match.start()) + 1}"
    for match in CODE_SPAN.finditer(prose):
        span = match.group(1)
        there = tree.has(span.rstrip("/")) or tree.has(normal(name, span)) or span in tree.stems
        if tree.names(span) and not there:
            yield f"{at(match)}: there is no `{span}`"
    prose = CODE_SPAN.sub(lambda match: "x" * len(match.group()), prose)
    for match in LINK.finditer(prose):
        target = match.group(1) or match.group(2)
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        path = normal(name, path) if path else name
        if not tree.has(path):
            yield f"{at(match)}: the link leads nowhere: {target}"
        elif anchor and anchor not in tree.anchors.get(path, {anchor}):
            yield f"{at(match)}: {path} has no heading for #{anchor}"


def table_problems(name, text, tree):
    """First columns that are called "file" or "folder": what they name lies beside the page."""
    lines = text.splitlines()
    title = None
    for number, (line, kind) in enumerate(zip(lines, kinds_of(lines)), 1):
        if kind != "table":
            title = None
            continue
        first = line.strip().strip("|").split("|")[0].strip()
        title = first if title is None else title
        for span in CODE_SPAN.findall(first) if title in ("file", "folder") else ():
            path = normal(name, span)
            if not tree.has(path) and path not in tree.stems:
                yield f"{name}:{number}: there is no `{span}` here"


def normal(name, path):
    """A path as seen from the page of that name, from the root."""
    joined = os.path.normpath(os.path.join(os.path.dirname(name), path))
    return joined.replace(os.sep, "/")


def missing_packages(script, page):
    """What `./kvasir` installs and docs/dependencies.md does not name."""
    lists = re.findall(r"^\w+_packages=\(([^)]*)\)", script, re.MULTILINE)
    return [f"docs/dependencies.md does not name `{package}`, which ./kvasir installs"
            for package in sorted(set(" ".join(lists).split())) if f"`{package}`" not in page]


def problems_in(name, text, tree):
    return [*width_problems(name, text), *link_problems(name, text, tree), *table_problems(name, text, tree)]


def self_test():
    long = "word " * 30
    page = "# One title, here\n\nshort\n\n    " + long + "\n\n| " + long + " |\n\n```\n" + long + "\n```\n"
    files = {"a.md": page, "src/kv/cache.h": None, "src/kv/README.md": "# kv\n"}
    found = lambda text, name="a.md": problems_in(name, text, Tree({**files, name: text}))
    assert found(page) == []
    assert len(found(page + long)) == 1, "prose is wrapped"
    assert len(found("- item\n    " + long)) == 1, "what continues an item is prose"
    assert len(found("text\n    " + long)) == 1, "what continues a paragraph is prose"
    assert found("[x](src/kv/README.md) [y](src/kv) [z](#one) ![p](https://b.c/d)\n\n# One") == []
    assert len(found("[x](src/kv/gone.md)")) == 1
    assert len(found("[x](src/kv/README.md#gone)")) == 1
    assert len(found("![x](gone.svg)")) == 1
    assert len(found("[a link\nof two lines](gone.md)")) == 1
    assert len(found("[x][here]\n\n[here]: gone.md")) == 1
    assert found("    [x](gone.md)\n\n`[x](gone.md)`") == []
    assert found("[x](../../a.md#one-title-here)", "src/kv/README.md") == []
    assert found("| `src/kv/cache` | `src/kv/cache.h` | `src/kv/` | `src/FOLDER/x` | `/health` | `a/b` |") == []
    assert len(found("| `src/kv/gone.h` |")) == 1
    assert missing_packages("a_packages=(one two\n  three)\nb_packages=(one)  # x", "`one` `three`") == [
        "docs/dependencies.md does not name `two`, which ./kvasir installs"]
    table = "| file | does |\n|---|---|\n| `cache`, `cache.h` | `x` |\n"
    assert found(table, "src/kv/README.md") == []
    assert len(found(table + "| `gone` | |", "src/kv/README.md")) == 1
    assert found(table + "\n| word | |\n|---|---|\n| `gone` | |", "src/kv/README.md") == []
    assert len(found("line\n" * 101, "README.md")) == 1
    assert len(found("| " + "x" * 100 + " |", "README.md")) == 1


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1])
    if not (root / ".git").exists():
        print("not a git checkout: nothing to check")
        return
    git = ["git", "-c", f"safe.directory={root}", "-C", root, "ls-files", "-z"]
    listed = subprocess.run(git, check=True, capture_output=True).stdout.decode().split("\0")
    names = [name for name in listed if name and (root / name).exists()]
    files = {name: (root / name).read_text() if name.endswith(".md") else None for name in names}
    pages = {name: text for name, text in files.items() if text is not None}
    tree = Tree(files)
    found = [problem for name, text in sorted(pages.items()) for problem in problems_in(name, text, tree)]
    found += missing_packages((root / "kvasir").read_text(), pages["docs/dependencies.md"])
    print("\n".join(found) or f"{len(pages)} pages of prose are in order")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Text of strangers becomes JSON in one way: by base/bounded_json.h. nlohmann's own parse() bounds neither depth nor
time, so the folders that read requests may not call it."""
import pathlib
import re
import sys

FOLDERS = ("server", "grammar")
PARSE = re.compile(r"\b\w*[Jj]son\w*::parse\s*\(|\bordered_json::parse\s*\(|\bjson::accept\s*\(")


def problems_in(name, text):
    for number, line in enumerate(text.splitlines(), 1):
        if PARSE.search(line.split("//")[0]):
            yield f"src/{name}:{number}: use parse_json() or read_bounded_json(): {line.strip()}"


def self_test():
    assert len(list(problems_in("server/x.cpp", "auto a = OrderedJson::parse(text, nullptr, false);"))) == 1
    assert len(list(problems_in("server/x.cpp", "auto a = Json::parse(text);"))) == 1
    assert len(list(problems_in("server/x.cpp", "auto a = nlohmann::json::parse(text);"))) == 1
    assert len(list(problems_in("server/x.cpp", "auto a = nlohmann::ordered_json::parse (text);"))) == 1
    assert list(problems_in("server/x.cpp", "auto a = parse_json(text);  // not Json::parse(text)")) == []


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    source = pathlib.Path(sys.argv[1]) / "src"
    found = []
    for folder in FOLDERS:
        for path in sorted((source / folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                found += problems_in(path.relative_to(source).as_posix(), path.read_text())
    print("\n".join(found) or "all JSON of strangers is read within bounds")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

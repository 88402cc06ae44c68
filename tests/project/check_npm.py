#!/usr/bin/env python3
"""What comes from npm for the page and for its test has its name in docs/dependencies.md, and a version, not a range."""
import json
import pathlib
import re
import sys


def problems(name, package, page):
    for kind in ("dependencies", "devDependencies"):
        for dependency, version in package.get(kind, {}).items():
            if f"`{dependency}`" not in page:
                yield f"{name}: {dependency} is not named in docs/dependencies.md"
            if not re.fullmatch(r"\d+\.\d+\.\d+", version):
                yield f"{name}: {dependency} {version} is no version"


def self_test():
    assert list(problems("p", {"dependencies": {"a": "1.2.3"}}, "`a`")) == []
    assert len(list(problems("p", {"devDependencies": {"a": "1.2.3"}}, "a"))) == 1
    assert len(list(problems("p", {"dependencies": {"a": "^1.2.3"}}, "`a`"))) == 1


if sys.argv[1] == "--self-test":
    self_test()
    sys.exit(0)
root = pathlib.Path(sys.argv[1])
page = (root / "docs/dependencies.md").read_text()
found = [problem for name in ("web/package.json", "tests/page/package.json")
         for problem in problems(name, json.loads((root / name).read_text()), page)]
print("\n".join(found) or "all packages are named")
sys.exit(1 if found else 0)

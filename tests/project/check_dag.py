#!/usr/bin/env python3
"""Compares every #include of src/ with the folder DAG: a folder may include what it stands on, and nothing else; a room
of a folder, such as server/http, may be held to less."""
import pathlib
import re
import sys

# folder -> folders it stands on. What those stand on is reachable too, but for the exceptions below.
DAG = {
    "base": [],
    "layout": ["base"],
    "kv": ["layout"],
    "backend": ["layout"],
    "model": ["backend"],
    "sample": ["base"],
    "text": ["base"],
    "engine": ["kv", "model", "sample"],
    "trace": ["engine"],
    "eval": ["engine", "text"],
    "tune": ["eval"],
    "plan": ["layout"],
    "grammar": ["base"],
    "api": ["engine", "text"],
    "server": ["api", "eval", "grammar", "trace"],
    "cli": ["tune", "plan", "server"],
}
# (folder, included folder) -> the only headers allowed
EXCEPTIONS = {("kv", "layout"): {"layout/retention.h"}}
# Rooms of a folder that may include only some of the folder's own: sockets know nothing of any API.
ROOMS = {"server/http/": ("server/", ("server/http/", "server/random_id.h"))}
# CUDA's headers are for this folder alone.
CUDA_FOLDER = "backend/cuda/"
CUDA_INCLUDE = re.compile(r'^\s*#\s*include\s+[<"](cuda\w*(?:\.h|/)|cub\w*(?:\.h|/)|nv\w*(?:\.h|/)|mma\.h|cooperative_groups)', re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def reachable(folder):
    seen, todo = set(), [folder]
    while todo:
        for below in DAG[todo.pop()]:
            if below not in seen:
                seen.add(below)
                todo.append(below)
    return seen


def problems_in(name, text):
    """name: path below src/, such as kv/cache.cpp."""
    folder = name.split("/")[0]
    if not name.startswith(CUDA_FOLDER):
        for included in CUDA_INCLUDE.findall(text):
            yield f"src/{name}: only src/{CUDA_FOLDER} may include CUDA's {included}"
    for room, (whole, allowed) in ROOMS.items():
        for included in INCLUDE.findall(text) if name.startswith(room) else []:
            if included.startswith(whole) and not included.startswith(allowed):
                yield f"src/{name}: src/{room} may include only {', '.join(allowed)} of src/{whole}, not {included}"
    for included in INCLUDE.findall(text):
        target = included.split("/")[0]
        if target in (folder, "kvasir"):
            continue
        if target not in DAG:
            yield f"src/{name}: \"{included}\" does not begin with a folder of src/"
        elif target not in reachable(folder):
            yield f"src/{name}: {folder} may not include {included}"
        elif included not in EXCEPTIONS.get((folder, target), {included}):
            yield f"src/{name}: {folder} may include only {', '.join(EXCEPTIONS[(folder, target)])} of {target}"


def self_test():
    assert list(problems_in("kv/cache.h", '#include "layout/retention.h"\n#include <vector>\n#include "kv/x.h"')) == []
    assert len(list(problems_in("kv/cache.h", '#include "layout/codec.h"'))) == 1
    assert len(list(problems_in("kv/cache.h", '  # include "backend/backend.h"'))) == 1
    assert len(list(problems_in("base/x.h", '#include "kv/cache.h"'))) == 1
    assert len(list(problems_in("text/x.h", '#include "layout/codec.h"'))) == 1
    assert len(list(problems_in("base/x.h", '#include "neighbour.h"'))) == 1
    assert len(list(problems_in("backend/backend.h", '#include <cuda_runtime.h>\n#include <mma.h>'))) == 2
    assert len(list(problems_in("cli/x.cpp", '#include <cublasLt.h>'))) == 1
    assert list(problems_in("backend/cuda/x.cu", '#include <cuda_runtime.h>')) == []
    assert list(problems_in("backend/x.cpp", '#include "backend/cuda/cuda_backend.h"')) == []
    assert list(problems_in("engine/x.h", '#include "backend/backend.h"')) == []
    assert len(list(problems_in("server/http/http_session.cpp", '#include "server/api/json_fields.h"'))) == 1
    assert len(list(problems_in("server/http/http_text.h", '#include "server/service.h"'))) == 1
    assert list(problems_in("server/http/x.cpp", '#include "server/http/sse.h"\n#include "base/error.h"')) == []
    assert list(problems_in("server/api/x.cpp", '#include "server/http/sse.h"')) == []


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    source = pathlib.Path(sys.argv[1]) / "src"
    found = []
    for path in sorted(source.rglob("*")):
        if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
            found += problems_in(path.relative_to(source).as_posix(), path.read_text())
    folders = {path.name for path in source.iterdir() if path.is_dir()}
    found += [f"src/{name} is not in the DAG of tests/project/check_dag.py" for name in sorted(folders - DAG.keys())]
    print("\n".join(found) or f"the includes of {len(folders)} folders follow the DAG")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()

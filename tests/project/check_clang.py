#!/usr/bin/env python3
"""What g++ compiles of src/ and fuzz/ compiles with clang too, with the same warnings: ./kvasir fuzz and the clang
preset need that, and nobody else would notice. Reads the commands of a build; only looks, and writes nothing.

    check_clang.py COMPILE_COMMANDS ROOT CLANG
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

SKIPPED = 77  # says to CTest that it was skipped


def with_clang(command, clang):
    """The same command, to be looked at by clang: without its output, and without what only g++ knows."""
    words = shlex.split(command)
    while not words[0].endswith(("c++", "g++")):  # ccache stands before it
        words.pop(0)
    out = [clang, "-fsyntax-only"]
    skip = False
    for word in words[1:]:
        if skip or word in ("-o", "-MF", "-MT"):
            skip = not skip
        elif word not in ("-MD", "-Wno-restrict", "-Wno-maybe-uninitialized"):
            out.append(word)
    return out


def is_ours(file, root, build):
    """Sources, and the files that CMake makes of several; not CUDA's, which only nvcc and g++ compile."""
    for base in (root, build):
        if file.is_relative_to(base / "src") or file.is_relative_to(base / "fuzz"):
            folders = file.relative_to(base).parts[:-1]
            return file.suffix != ".cu" and ("cuda" not in folders or file.name == "without_cuda.cpp")
    return False


def main():
    commands, root, clang = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
    if os.environ.get("KVASIR_SKIP_CLANG") == "1":
        print("skipped: KVASIR_SKIP_CLANG=1")
        sys.exit(SKIPPED)
    if not shutil.which(clang):
        sys.exit(f"{clang} is not here: install it, or set KVASIR_SKIP_CLANG=1 to do without this test")

    def look(entry):
        return entry["file"], subprocess.run(with_clang(entry["command"], clang), cwd=entry["directory"], capture_output=True, text=True)

    entries = [entry for entry in json.loads(commands.read_text())
               if is_ours(pathlib.Path(entry["file"]), root, commands.parent)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        failed = [(file, run.stderr) for file, run in pool.map(look, entries) if run.returncode != 0]
    for file, errors in failed:
        print(f"{file} does not compile with {clang}:\n{errors}")
    print(f"{len(entries) - len(failed)} of {len(entries)} compile with {clang}")
    sys.exit(1 if failed or not entries else 0)


if __name__ == "__main__":
    main()

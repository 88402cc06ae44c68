#!/usr/bin/env python3
"""Tracked files together stay under 60 MiB: the whole tree must stay quick to clone and to carry about."""
import pathlib
import subprocess
import sys

LIMIT = 60 << 20
root = pathlib.Path(sys.argv[1])
if not (root / ".git").exists():
    print("not a git checkout: nothing to check")
    sys.exit(0)
listed = subprocess.run(["git", "-c", f"safe.directory={root}", "-C", root, "ls-files", "-z"], check=True, capture_output=True).stdout
sizes = [(root / name).lstat().st_size for name in listed.decode().split("\0") if name and (root / name).exists()]
print(f"{len(sizes)} tracked files, {sum(sizes) / 2**20:.1f} MiB")
sys.exit(0 if sum(sizes) < LIMIT else 1)

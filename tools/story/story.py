#!/usr/bin/env python3
"""Draws the pictures of docs/story.md from runs of build/kvasir with the shipped models.

    python3 tools/story/story.py                  # all, two minutes on two cores
    python3 tools/story/story.py sharing windows  # these"""
import argparse
import pathlib
import sys

from pictures import PICTURES

OUT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "story"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", nargs="*", metavar="PICTURE", help=", ".join(PICTURES))
    wanted = parser.parse_args().pictures or list(PICTURES)
    unknown = [name for name in wanted if name not in PICTURES]
    if unknown:
        sys.exit(f"there is no picture {unknown[0]}: there are {', '.join(PICTURES)}")
    OUT.mkdir(exist_ok=True)
    for name in wanted:
        picture, facts = PICTURES[name]()
        path = OUT / f"{name}.svg"
        path.write_text(str(picture))
        print(f"{name}: {path.stat().st_size} bytes; {facts}", flush=True)


if __name__ == "__main__":
    main()

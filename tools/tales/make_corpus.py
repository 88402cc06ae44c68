#!/usr/bin/env python3
"""Writes the texts that the shipped models are trained on. See README.md beside this file."""
import argparse
import json
import lzma
import pathlib
import random

import animals
import chats
import children
import wonder

SEPARATOR = "\n<|endoftext|>\n"
SCHEMAS = animals.SCHEMAS + children.SCHEMAS + wonder.SCHEMAS  # each makes a story of a random generator


class Maker:
    """Stories, plot by plot in turn. No text comes twice from all makers that share `seen`."""

    def __init__(self, seed, seen):
        self.seed, self.seen, self.count = seed, seen, 0

    def __call__(self):
        while True:
            schema = SCHEMAS[self.count % len(SCHEMAS)]
            story = schema(random.Random(f"{self.seed}/{self.count}"))
            self.count += 1
            text = story["text"].strip()
            if text not in self.seen:
                self.seen.add(text)
                about = [name for name in story.get("about", []) if name and name.strip()]
                return dict(title=story["title"].strip(), text=text, about=about)


def document(story, titled):
    return (story["title"] + "\n\n" if titled else "") + story["text"]


def make_chats(stories, maker, r):
    """A chat for each story, and 0.4 of small talk."""
    out = []
    for _ in range(stories):
        story = maker()
        out.append(chats.chats(r, story, maker() if r.random() < 0.12 else None))
    pool = [maker() for _ in range(min(2000, stories))]
    talks = [chats.smalltalk(r, pool) for _ in range(int(stories * 0.4))]
    out += [talk for talk in talks if talk]
    r.shuffle(out)
    return out


def some_books(file, megabytes, r):
    """Whole documents of a file that separates them by <|endoftext|>, up to so many bytes."""
    documents = [text.strip() for text in file.read_text(encoding="utf-8").split("<|endoftext|>") if text.strip()]
    r.shuffle(documents)
    out, size = [], 0
    for text in documents:
        length = len(text.encode())
        if size + length <= megabytes * 1.02e6:
            out.append(text)
            size += length
        if size >= megabytes * 1e6:
            break
    return out


def write(path, text):
    with lzma.open(path, "wt", encoding="utf-8", preset=6) as out:
        out.write(text)
    print(f"{path}: {len(text.encode()) / 1e6:.2f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--stories", type=int, default=81000)
    parser.add_argument("--books", type=pathlib.Path, help="documents separated by lines of <|endoftext|>")
    parser.add_argument("--books-mb", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    seen = set()
    r = random.Random(f"mix{options.seed}")
    unseen = Maker(f"valid{options.seed}", seen)
    held_out = [document(unseen(), i % 2 == 0) for i in range(500)]
    (options.out / "unseen.txt").write_text(SEPARATOR.join(held_out) + "\n", encoding="utf-8")
    maker = Maker(f"train{options.seed}", seen)
    stories = [document(maker(), r.random() < 0.5) for _ in range(options.stories)]
    write(options.out / "stories.txt.xz", SEPARATOR.join(stories) + "\n")
    talks = make_chats(options.stories, Maker(f"chat{options.seed}", seen), r)
    write(options.out / "chats.jsonl.xz", "".join(json.dumps(talk, ensure_ascii=False) + "\n" for talk in talks))
    books = some_books(options.books, options.books_mb, r) if options.books else []
    write(options.out / "books.txt.xz", SEPARATOR.join(books) + "\n")


if __name__ == "__main__":
    main()

"""The pictures of docs/story.md: each function runs kvasir, and draws what was seen. They return (picture, facts)."""
import json
import textwrap

from server import Server, Watch, kvasir
from svg import Axes, Picture

FOX = "Tell me a story about a fox and a crow."
SYSTEM = "You are an old miller who tells stories by the fire. Every story is short, has one animal in it, and ends well for somebody."


def events_of(watch, kind, request):
    """Times at which this happened to blocks of the request, the first first."""
    out = []
    for look in watch.looks:
        out += [look["now"] - ago for what, _, whose, ago in look.get("events", []) if what == kind and whose == request]
    return sorted(out)


def growing():
    """The cache of one answer, as it grows."""
    with Server("-m", "tales", "-t", "1") as server:
        watch = Watch(server)
        block_bytes = watch.looks[0]["groups"][0]["block_bytes"]
        tokens = watch.looks[0]["hello"]["block_tokens"]
        server.write("Once upon a time there was a fox. " * 12, 400)
        watch.rest()
        request = next(row["id"] for look in watch.looks for row in look.get("requests", []))
        taken = events_of(watch, "taken", request)
        prompt = next(row["prompt"] for look in watch.looks for row in look.get("requests", []))
    picture = Picture(720, 330, "One answer's cache grows by a block for every 16 tokens")
    elapsed = [time - taken[0] for time in taken]
    axes = Axes(picture, (70, 56, 700, 270), elapsed[-1] * 1000 * 1.05, len(taken) * block_bytes / 1e6 * 1.1, ("milliseconds", "MB"))
    points, held = [axes.at(0, 0)], 0
    for time in elapsed:
        points += [axes.at(time * 1000, held), axes.at(time * 1000, held + block_bytes / 1e6)]
        held += block_bytes / 1e6
    picture.path(points + [axes.at(elapsed[-1] * 1000 * 1.05, held)], "l1")
    first = -(-prompt // tokens)
    x, y = axes.at(elapsed[first - 1] * 1000, first * block_bytes / 1e6)
    picture.text(x + 12, y + 20, f"the prompt of {prompt} tokens takes {first} blocks at once", "s")
    x, y = axes.at(elapsed[-1] * 400, held * 0.25)
    picture.text(x, y, f"then one of {block_bytes / 1000:,.0f} kB for every {tokens} tokens of the answer", "s")
    return picture, {"blocks": len(taken), "block_kB": block_bytes / 1000, "prompt": prompt}


def quadratic():
    """Seconds for an answer, by its length, with the cache and without."""
    lengths = [32, 64, 128, 192, 256]
    run = lambda n, *more: json.loads(kvasir("bench", "-t", "1", "-n", str(n), "-r", "1", "--json", *more))["results"][0]["median_seconds"]
    warm = [(n, run(n)) for n in lengths]
    cold = [(n, run(n, "--no-cache")) for n in lengths]
    picture = Picture(720, 330, "Without the cache every token reads the whole text again")
    axes = Axes(picture, (60, 56, 560, 270), lengths[-1], cold[-1][1] * 1.08, ("tokens in the answer", "seconds"))
    for points, kind, name in ((cold, "2", "without the cache"), (warm, "1", "with the cache")):
        picture.path([axes.at(0, 0)] + [axes.at(*point) for point in points], f"l{kind}")
        for point in points:
            x, y = axes.at(*point)
            picture.rect(x - 3, y - 3, 6, 6, f"k{kind}", 3)
        x, y = axes.at(*points[-1])
        picture.text(x + 10, y + 4, name)
        picture.text(x + 10, y + 20, f"{points[-1][1]:.2f} s", "q s")
    return picture, {"cold_s": cold[-1][1], "warm_s": warm[-1][1]}


def blocks():
    """A text cut into blocks, each with its text and its key."""
    with Server("-m", "tales") as server:
        watch = Watch(server)
        server.chat(FOX, SYSTEM, max_tokens=24)
        watch.rest()
        last = max((row for row in watch.cells.values() if row["key"]), key=lambda row: row["place"])
        chain = watch.chain_to(last["cell"])
        texts = [server.get(f"/kvasir/blocks/{row['key']}")["text"] for row in chain]
        tokens = watch.looks[0]["hello"]["block_tokens"]
    picture = Picture(720, 60 + 46 * len(chain), "A text lies in blocks, and each has a name")
    for i, (row, text) in enumerate(zip(chain, texts)):
        y = 44 + 46 * i
        picture.rect(16, y, 688, 38, "b1", 5)
        picture.text(28, y + 16, f"{i * tokens}–{(i + 1) * tokens - 1}", "s q")
        picture.text(28, y + 31, row["key"][:8], "m")
        for j, part in enumerate(textwrap.wrap(text.replace("\n", "⏎").strip(), 84)[:2]):
            picture.text(118, y + 16 + 15 * j, part, "s")
        if i:
            picture.line(60, y - 8, 60, y, "g")
    return picture, {"blocks": len(chain)}


def sharing():
    """Three chats behind one system prompt: what they have in common lies there once."""
    questions = ["Tell me a story about a fox and a crow.", "Tell me a story about a fox and a bear who lost his hat.", "What did the old goose say to the king of the pond that night?"]
    with Server("-m", "tales") as server:
        watch = Watch(server)
        replies = [server.chat(text, SYSTEM, max_tokens=20) for text in questions]
        watch.rest()
        named = [row for row in watch.cells.values() if row["key"]]
        leaves = [row for row in named if not any(other["parent"] == row["cell"] for other in named)]
        chains = [watch.chain_to(row["cell"]) for row in leaves]
        texts = {row["cell"]: server.get(f"/kvasir/blocks/{row['key']}")["text"] for row in named}
    users = {row["cell"]: sum(row in chain for chain in chains) for row in named}
    depth = max(len(chain) for chain in chains)
    picture = Picture(720, 76 + 62 * len(chains), "What texts have in common lies there once")
    size, rows = min(128, 500 // depth), {}
    for number, chain in enumerate(chains):
        for row in chain:
            if row["cell"] in rows:
                continue
            rows[row["cell"]] = number
            x, y = 16 + size * row["place"], 42 + 62 * number
            parent = rows.get(row["parent"])
            if parent is not None:
                picture.line(x - 8, 42 + 62 * parent + 23, x, y + 23, "g")
            picture.rect(x, y, size - 8, 46, "b3" if users[row["cell"]] > 1 else "b1", 5)
            for i, part in enumerate(textwrap.wrap(texts[row["cell"]].strip(), (size - 12) // 6, max_lines=3, placeholder="…")):
                picture.text(x + 5, y + 14 + 13 * i, part, "s")
    usage = [reply["usage"] for reply in replies]
    reused = [one["prompt_tokens_details"]["cached_tokens"] for one in usage]
    for number, one in enumerate(usage):
        picture.text(540, 62 + 62 * number, f"chat {number + 1}")
        picture.text(540, 78 + 62 * number, f"{reused[number]} of {one['prompt_tokens']} tokens reused", "s q")
    picture.legend(16, 60 + 62 * len(chains), [("b3", "lies there once, for all three"), ("b1", "one chat's own")])
    return picture, {"reused": reused, "why": [reply["kvasir"]["explanation"] for reply in replies]}


def held_by_length(policy, tokens):
    """[(tokens so far, places of blocks that somebody holds)] of one answer. The oracle's plain loops are slow enough to be watched."""
    out = []
    with Server("-m", "tales", "--device", "ref", "--kv", policy) as server:
        watch = Watch(server)
        server.write("Once upon a time", tokens)
        cells = {}
        for look in watch.looks:
            for row in look.get("blocks", []):
                cells[row[0]] = row
            running = [row for row in look.get("requests", []) if row["answer"] > 0]
            held = sorted(row[5] for row in cells.values() if row[2] in (2, 3) and len(row) > 5)
            if running and held:
                out.append((running[0]["prompt"] + running[0]["answer"], held))
    return out


def windows():
    """Which tokens a request still holds, as its text grows: all, the last 64, or those and four sinks."""
    tokens = 320
    policies = [("f16", "everything", "1"), ("f16, window=64", "the last 64 tokens", "2"), ("f16, window=64, sinks=4", "those, and the first 4", "3")]
    picture = Picture(720, 324, "What a window keeps while a text grows")
    picture.text(16, 312, "A bar is a block: its height says where in the text it stands, its length for how long it is kept.", "s q")
    facts = {}
    for i, (policy, name, kind) in enumerate(policies):
        looks = held_by_length(policy, tokens)
        left, top, size = 56 + 226 * i, 60, 190
        axes = Axes(picture, (left, top, left + size, top + size), tokens + 16, tokens + 16, ("tokens so far", ""))
        for place, since, until in spans_of(looks):
            x0, y0 = axes.at(since, (place + 1) * 16)
            x1, y1 = axes.at(until, place * 16)
            picture.rect(x0, y0, x1 - x0, y1 - y0 - 1, f"k{kind}")
        picture.text(left, top - 12, name, "s")
        facts[policy] = {"blocks at the end": len(looks[-1][1])}
    return picture, facts


def spans_of(looks):
    """[(place, since, until)] of the blocks, in tokens of the text."""
    began, out, before = {}, [], 0
    for length, held in looks:
        for place in held:
            began.setdefault(place, before)
        for place in [one for one in began if one not in held]:
            out.append((place, began.pop(place), before))
        before = length
    return out + [(place, since, before) for place, since in began.items()]


def formats():
    """What number formats save, and what they cost."""
    names = ["f16", "fp8_e4m3", "int8", "int4", "int2"]
    command = ["eval", "--text", "models/held-out.txt", "--tokens", "4096", "--ctx", "1024", "--needles", "0", "--json"]
    report = json.loads(kvasir(*command, *[part for name in names for part in ("--kv", name)]))
    rows = [row for row in report["policies"] if row["policy"] in names]
    picture = Picture(720, 70 + 34 * len(rows), "Smaller numbers: bytes a token, and how far answers drift")
    most_bytes = max(row["bytes_per_token"] for row in rows)
    most_kl = max(row["kl"]["mean"] for row in rows)
    picture.text(110, 48, "bytes a token", "s q")
    picture.text(440, 48, "divergence from f32, nats a token", "s q")
    for i, row in enumerate(rows):
        y = 58 + 34 * i
        picture.text(16, y + 15, row["policy"])
        picture.rect(110, y, 230 * row["bytes_per_token"] / most_bytes, 20, "k1", 3)
        picture.text(116 + 230 * row["bytes_per_token"] / most_bytes, y + 15, f"{row['bytes_per_token']:,.0f}", "s")
        picture.rect(440, y, max(180 * row["kl"]["mean"] / most_kl, 1), 20, "k2", 3)
        picture.text(446 + 180 * row["kl"]["mean"] / most_kl, y + 15, f"{row['kl']['mean']:.2g}", "s")
    return picture, {row["policy"]: row["kl"]["mean"] for row in rows}


def eviction():
    """Every block of a small cache, request by request, in the colour of the story that it is of."""
    animals = ["fox", "crow", "bear", "goose", "cat", "mouse", "owl", "frog"]
    order = [0, 1, 0, 2, 3, 0, 4, 5, 6, 0, 7, 2, 1, 0, 3, 4]
    columns, notes, owners, seen = [], [], {}, 0
    with Server("-m", "tales-draft", "-c", "256", "--kv-memory", "280KB") as server:
        watch = Watch(server)
        for number in order:
            name = animals[number]
            reply = server.chat(f"Tell me a long story about a {name} who lived by the river. " + f"The {name} was old. " * 6, max_tokens=60, ignore_eos=True)
            watch.rest()
            for look in watch.looks[seen:]:
                owners |= {cell: number for what, cell, *_ in look.get("events", []) if what == "taken"}
            seen = len(watch.looks)
            columns.append({cell: "k0" if state == "free" else f"k{owners[cell] + 1}" for cell, state in watch.states().items()})
            usage = reply["usage"]
            notes.append((name, usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"], reply["kvasir"]["reason"]))
        evicted = sum(what == "evicted" for look in watch.looks for what, *_ in look.get("events", []))
    cells = sorted(columns[0])
    width, height = 620 / len(order), 200 / len(cells)
    picture = Picture(720, 352, "A full cache lets go of what was not used for longest")
    for i, column in enumerate(columns):
        start = 0
        for j in range(1, len(cells) + 1):
            if j < len(cells) and column[cells[j]] == column[cells[start]]:
                continue
            picture.rect(80 + width * i, 44 + height * start, width - 2, height * (j - start), column[cells[start]])
            start = j
        name, reused, prompt, reason = notes[i]
        picture.text(80 + width * (i + 0.45), 260, name, "s c")
        picture.rect(80 + width * i + 4, 314 - 40 * reused / prompt, width - 10, 40 * reused / prompt + 1, f"k{order[i] + 1}")
        if reason == "evicted":
            picture.text(80 + width * (i + 0.45), 300, "✕", "c")
    picture.text(16, 148, f"{len(cells)} blocks", "s q")
    picture.text(16, 296, "reused", "s q")
    picture.text(80, 340, "Below: the share of each prompt that was found; ✕: it was there once, and made room.", "s q")
    return picture, {"evicted": evicted, "notes": notes}


def speculation():
    """Steps that an answer takes, with guessed tokens and without: one much like it was given before."""
    results = {}
    for draft in ("off", "auto"):
        with Server("-m", "tales", "-t", "1", "--draft", draft) as server:
            server.write("Once upon a time", 100)  # what has been told before can be guessed
            reply = server.write("Once upon a time there", 100)
            results[draft] = server.get(f"/kvasir/requests/{reply['id']}")["tasks"][0]
            results[draft]["text"] = reply["choices"][0]["text"]
    assert results["off"]["text"] == results["auto"]["text"], "a guess changed an answer"
    picture = Picture(720, 190, "Guessed tokens: the same answer in fewer steps")
    most = results["off"]["steps"]
    for i, (draft, name) in enumerate((("off", "a token a step"), ("auto", "with guesses"))):
        task = results[draft]
        y = 50 + 52 * i
        picture.text(16, y + 20, name)
        each = 480 / most
        for step in range(task["steps"]):
            picture.rect(140 + each * step, y, max(each - 1, 0.6), 30, f"k{1 + 2 * i}")
        picture.text(148 + each * task["steps"], y + 20, f"{task['steps']} steps", "s")
    drafts = results["auto"]["drafts"]
    proposed = sum(one["draft_tokens"] for one in drafts)
    accepted = sum(one["accepted_tokens"] for one in drafts)
    picture.text(16, 170, f"{accepted} of {proposed} guessed tokens were right. Both answers are the same, letter by letter.", "s q")
    return picture, {"steps": {draft: task["steps"] for draft, task in results.items()}, "drafts": drafts}


PICTURES = {one.__name__: one for one in (growing, quadratic, blocks, sharing, windows, formats, eviction, speculation)}

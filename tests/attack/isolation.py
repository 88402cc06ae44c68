"""What is said of tenants is so: guarantees hold, public texts tell nothing, and nobody counts another's requests."""
import json
import os
import tempfile

from attack import Attack, BYTES_PER_TOKEN, CONTEXT, at_once, check, ids, words

TWO = {"alice": (), "bob": ()}


def guarantee(lab):
    """What a tenant has cached within its guarantee is not evicted for another, whatever the other sends."""
    ways = {
        "long prompts": lambda i: {"prompt": ids(1900, 100 + i), "max_tokens": 60},
        "answers": lambda i: {"prompt": ids(1300, 200 + i), "max_tokens": lab.of(100, 700), "ignore_eos": True},
        "many answers": lambda i: {"prompt": ids(900, 300 + i), "n": 8, "max_tokens": 40},
        "another policy": lambda i: {"prompt": ids(1000, 400 + i), "kv": "f32", "max_tokens": 20},
    }
    clients = 6
    with lab.server(["--kv-allow", "any"], {"alice": (), "bob": ("--guaranteed", "50%")}) as server:
        server.complete(ids(1000, 1), "bob")
        whole = server.complete(ids(1000, 1), "bob").cached
        check(whole >= 984, f"bob finds {whole} of his 1000 tokens while nobody else is there")
        for name, body in ways.items():
            for reply in at_once(range(clients), lambda i: server.post("/v1/completions", body(i), "alice"), clients):
                check(reply.status in (200, 400, 429, 503), f"alice, {name}: {reply.says()}")
            found = server.complete(ids(1000, 1), "bob", explain=True)
            check(found.cached >= whole, f"after alice's {name} bob finds {found.cached} of {whole} tokens: "
                                         f"{found.json.get('kvasir', {}).get('explanation')}")
        return f"bob's {whole} tokens stay through {len(ways)} kinds of pressure"


def tight_guarantee(lab):
    """The same in a cache of one context, where alice's largest request cannot have both what it needs and what is bob's."""
    flags = ["--kv-memory", str(CONTEXT * BYTES_PER_TOKEN)]
    with lab.server(flags, {"alice": (), "bob": ("--guaranteed", "25%")}) as server:
        server.complete(ids(480, 1), "bob")
        whole = server.complete(ids(480, 1), "bob").cached
        statuses = set()
        for size in [400, 1000, 1500, 1900, 2000]:
            statuses.add(server.post("/v1/completions", {"prompt": ids(size, size), "max_tokens": 1}, "alice", timeout=30).status)
            found = server.complete(ids(480, 1), "bob").cached
            check(found >= whole, f"alice's {size} tokens took bob's: {found} of {whole} left")
        check(statuses <= {200, 400, 429}, f"alice got {statuses}")
        return f"bob's {whole} of {CONTEXT} tokens stay; alice got {sorted(statuses)}"


def public_prefix(lab):
    """A public text is found by all, always, so that a hit tells nothing about who used it."""
    text, salts = words(170, 7), [0]
    flags = ["--kv-memory", str(CONTEXT * BYTES_PER_TOKEN), "--kv-allow", "any"]

    def large(server, seed, **more):
        for size in (2040, 1900, 1500):
            reply = server.post("/v1/completions", {"prompt": ids(size, seed), "max_tokens": 1, **more}, "alice")
            check(reply.status in (200, 400), f"alice's large request got {reply.says()}")

    def probe(server, tenant):
        """What is found of the public text by whoever has nothing of their own: each salt is a space of its own."""
        salts[0] += 1
        return server.complete(f"{text} {words(6, 1)}", tenant, cache_salt=str(salts[0])).cached

    with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
        file.write(text)
    try:
        with lab.server([*flags, "--public-prefix", file.name], TWO) as server:
            first = probe(server, "alice")
            check(first >= 100, f"the public text is not found: {first} tokens")
            kinds = [("large requests", {}), ("n = 8", {"n": 8}), ("f32", {"kv": "f32"}), ("int8", {"kv": "int8"})]
            for kind, more in kinds[:lab.of(1, 4)]:
                large(server, 11, **more)
                before = probe(server, "alice")
                large(server, 12, **more)
                probe(server, "bob")
                after = probe(server, "alice")
                check(before == after == first, f"after {kind} alice finds {before} tokens of the public text, "
                                                f"after bob used it {after}, and {first} at first")
            return f"{first} tokens found by all, before and after {lab.of(1, 4) * 6} large requests"
    finally:
        os.unlink(file.name)


def task_numbers(lab):
    """Nothing a tenant is told counts what others do."""
    with lab.server(tenants=TWO) as server:
        def seen():
            reply = server.complete("Once upon", "bob", explain=True)
            record = server.get(f"/kvasir/requests/{reply.json['id']}", "bob")
            check(record.status == 200, f"bob's record: {record.says()}")
            return record.json["tasks"][0]["id_task"]

        told = []
        for others in [0, 7, 3, 12, 1, 5]:
            before = seen()
            for i in range(others):
                server.complete(f"other {i}", "alice")
            told.append((others, seen() - before))
        plain = {step for _, step in told}
        check(len(plain) == 1 or any(step - told[0][1] != others for others, step in told),
              f"id_task grows with others' requests: (theirs, growth) {told}")
        return "id_task grows by " + (f"{plain.pop()} whatever others send" if len(plain) == 1 else "what tells nothing")


def others_numbers(lab):
    """While bob is idle, nothing that bob may read changes with what alice does."""
    with lab.server(tenants=TWO) as server:
        server.complete("Once upon", "bob")
        kept = server.post("/v1/responses", {"input": "mine", "max_output_tokens": 1}, "alice").json["id"]

        def view():
            lines = {f"/metrics {name}": value for name, value in server.metrics("bob").items()}
            for path in ("/props", "/slots", "/v1/models", "/api/tags", f"/v1/responses/{kept}", f"/kvasir/requests/{kept}"):
                body = server.get(path, "bob").body.decode()
                lines.update({f"{path} {i}": line for i, line in enumerate(body.split(","))})
            return lines

        before = view()
        replies = [server.complete(f"text {i}", "alice", n=2, max_tokens=3) for i in range(5)]
        server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2,
                                             "guided_json": {"type": "integer"}}, "alice")
        after = view()
        changed = {name: (before.get(name), after[name]) for name in after
                   if before.get(name) != after[name] and not any(word in name for word in ("seconds_since", "process_", "created", "modified"))}
        check(not changed, f"bob sees alice's requests in {json.dumps(dict(list(changed.items())[:3]))}")
        for reply in replies:
            for id in (reply.json["id"], reply.headers.get("x-request-id", "none")):
                theirs, unknown = server.get(f"/kvasir/requests/{id}", "bob"), server.get("/kvasir/requests/req-nobody", "bob")
                check(theirs.status == unknown.status == 404, f"bob asks for alice's record: {theirs.says()}")
        check(server.request("DELETE", f"/v1/responses/{kept}", tenant="bob").status == 404, "bob deletes alice's response")
        check(server.get(f"/v1/responses/{kept}", "alice").status == 200, "alice's response is gone")
        return f"{len(after)} values that bob sees stay as they are"


def same_text(lab):
    """The same prompts of two tenants share nothing, and salts divide a tenant's own."""
    with lab.server(tenants=TWO) as server:
        server.complete(ids(400, 1), "alice")
        check(server.complete(ids(400, 1), "bob").cached == 0, "bob finds what alice cached")
        check(server.complete(ids(400, 1), "alice", cache_salt="x").cached == 0, "a salt finds what was cached without")
        check(server.complete(ids(400, 1), "alice", prompt_cache_key="x").cached == 0, "a key finds what a salt cached")
        check(server.complete(ids(400, 1), "alice").cached >= 384, "alice does not find her own")
        return "no token of another's"


ATTACKS = [
    Attack("guarantee", guarantee, quick=False),
    Attack("tight guarantee", tight_guarantee),
    Attack("public prefix", public_prefix),
    Attack("task numbers", task_numbers),
    Attack("others' numbers", others_numbers),
    Attack("same text", same_text),
]

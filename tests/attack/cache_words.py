"""What the cache says of itself is so, also under pressure: rates, counts, gauges and reasons for refusals."""
import re

from attack import Attack, BYTES_PER_TOKEN, CONTEXT, MIB, at_once, check, ids, words

TIGHT = ["--kv-memory", str(CONTEXT * BYTES_PER_TOKEN)]


def hit_rate(lab):
    """Queries and hits count each prompt once, as usage does, however often its request paused."""
    for swap in lab.of(["1B"], ["1B", str(32 * MIB)]):
        with lab.server([*TIGHT, "--swap-memory", swap]) as server:
            usages = [reply.usage for reply in at_once(
                range(16), lambda i: server.complete(ids(90, i % 12), max_tokens=120, ignore_eos=True), 16)]
            tokens = sum(usage["prompt_tokens"] for usage in usages)
            cached = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages)
            metrics, pauses = server.metrics(), server.total("kvasir:pauses_total")
            check(pauses > 0, "nothing was paused")
            for prefix in ("vllm:", "kvasir:tenant_", "kvasir:policy_"):
                queries, hits = (sum(value for name, value in metrics.items() if name.startswith(f"{prefix}prefix_cache_{kind}_total"))
                                 for kind in ("queries", "hits"))
                check((queries, hits) == (tokens, cached), f"{prefix}prefix_cache: {queries:.0f} queries and {hits:.0f} hits; usage "
                                                           f"says {tokens} and {cached}, in {pauses:.0f} pauses (swap {swap})")
    return f"{tokens} queries, {cached} hits, as usage says, in {pauses:.0f} pauses"


def written(lab):
    """cache_write_tokens are found next time. What is never found again was not written."""
    policies = ["f16", "int8", "f16, evict=h2o:64, sinks=4", "f16, evict=snapkv:64, sinks=4", "f16, evict=fifo:50%",
                "f16, evict=snapkv:64, heads=adaptive, sinks=4", "int4, recent=64:f16, sinks=4"]
    with lab.server(["--kv-allow", "any"]) as server:
        for i, policy in enumerate(policies):
            told = server.complete(ids(200, i), kv=policy).usage["prompt_tokens_details"]["cache_write_tokens"]
            found = server.complete(ids(200, i), kv=policy).cached
            check(found >= told, f"{policy}: {told} tokens written, {found} of them found")
        big = server.post("/v1/messages", {"messages": [{"role": "user", "content": words(200, 9)}], "max_tokens": 1,
                                           "kv": policies[2]}).json["usage"]
        check(big["cache_creation_input_tokens"] == 0, f"/v1/messages: {big['cache_creation_input_tokens']} tokens created")
        return f"{len(policies)} policies: what is written is found"


def usage_gauge(lab):
    """Blocks that running requests hold are none when none runs, whatever is pinned."""
    with lab.server(TIGHT) as server:
        for i in range(3):
            body = {"messages": [{"role": "user", "content": [{"type": "text", "text": words(250, i),
                    "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}], "max_tokens": 1}
            check(server.post("/v1/messages", body).status == 200, "a breakpoint was refused")
        pinned, used = server.total("kvasir:kv_pinned_blocks"), server.total("vllm:kv_cache_usage_perc")
        check(pinned > 0, "nothing is pinned")
        check(used == 0, f"vllm:kv_cache_usage_perc is {used:.2f} with nothing running and {pinned:.0f} blocks pinned")
        return f"0 held, {pinned:.0f} pinned"


def capacity_message(lab):
    """A request that cannot fit is told what it needs and what there is, in a unit in which the one is more than the other."""
    policies = ["f16", "f32", "f16, evict=snapkv:256, heads=adaptive, sinks=4", "f16, evict=h2o:50%", "int4, recent=64:f16, sinks=4"]
    seen = 0
    with lab.server(["--kv-memory", str(MIB), "--block-size", "32", "--kv-allow", "any", "--ctx-size", "2048"]) as server:
        for policy in policies:
            for tokens in [100, 145, 200, 400, 1000, 2000]:
                reply = server.post("/v1/completions", {"prompt": ids(tokens, tokens), "max_tokens": 1, "kv": policy})
                check(reply.status in (200, 400), reply.says())
                if reply.status == 200:
                    continue
                seen += 1
                said = reply.json["error"]["message"]
                blocks = re.search(r"([\d,]+) tokens of prompt and answer need more than the cache's (\d+) blocks of (\d+) tokens", said)
                if blocks:
                    need, have, size = (int(group.replace(",", "")) for group in blocks.groups())
                    check(need > have * size, f"{policy}: {said}")
    check(seen > 0, "every request fits")
    return f"{seen} refusals give a cause that is one"


def no_swap(lab):
    """--swap-memory 0, as its help has it, and other sizes of nothing."""
    for size in lab.of(["0"], ["0", "0B", "0MiB"]):
        with lab.server([*TIGHT, "--swap-memory", size]) as server:
            at_once(range(10), lambda i: server.complete(ids(100, i), max_tokens=150, ignore_eos=True), 10)
            how = {name: value for name, value in server.metrics().items() if name.startswith("kvasir:pauses_total")}
            check(sum(value for name, value in how.items() if "swap" in name) == 0, f"--swap-memory {size}: {how}")
    return "pauses recompute"


ATTACKS = [
    Attack("hit rate", hit_rate),
    Attack("written tokens", written),
    Attack("usage gauge", usage_gauge),
    Attack("capacity message", capacity_message),
    Attack("no swap", no_swap),
]

"""Random sequences of requests over a cache that is much too small: every answer is an idle server's."""
import itertools
import random

from answers import check_answers, known_answers, leave
from attack import Attack, Crowd, MIB, check, wait_until

SETTINGS = [
    ["--kv-memory", str(5 * MIB), "--swap-memory", "1B"],
    ["--kv-memory", str(5 * MIB), "--swap-memory", str(MIB), "--block-size", "32"],
    ["--kv-memory", str(5 * MIB), "--eviction", "cost", "--max-batch-tokens", "48"],
    ["--kv-memory", str(6 * MIB), "--eviction", "fifo", "--block-size", "5"],
    ["--kv-memory", str(8 * MIB), "--swap-memory", str(2 * MIB), "--block-size", "7"],
    ["--kv-memory", str(6 * MIB), "--kv-canary", "100%", "--kv-canary-limit", "100"],
    ["--kv-memory", str(24 * MIB), "--max-batch-tokens", "128", "--threads", "1"],
]
TENANTS = {"alice": ("--guaranteed", "20%"), "bob": ("--most", "60%", "--weight", "3"), "carol": (), "op": ("--operator",)}


def squeezed(lab):
    count, clients = lab.of(60, 200), 24
    questions, answers = known_answers(lab, 11, count)
    equal = pauses = too_large = 0
    for flags, tenants in lab.of([(SETTINGS[1], TENANTS)], list(itertools.product(SETTINGS, (None, TENANTS)))):
        order = list(range(count))
        random.Random(str(flags)).shuffle(order)
        with lab.server([*flags, "--kv-allow", "any", "-q"], tenants) as server:
            draw, names = random.Random(5), list(tenants or [None])
            with Crowd(2, lambda i, turn: leave(server, draw.choice(questions), draw.choice(names), draw)):
                # What an idle server answered can only be a 400 here because it is too large for this cache.
                done = check_answers(server, [questions[i] for i in order], [answers[i] for i in order], clients, names, refusals=(400,))
            equal, too_large = equal + done[0], too_large + done[1]
            empty = wait_until(lambda: server.total("vllm:num_requests_running") + server.total("vllm:num_requests_waiting") == 0, 30)
            check(empty, "requests of clients that left still run")
            pauses += server.total("kvasir:pauses_total")
    check(pauses > 0, "nothing was paused: the cache is not too small")
    check(too_large < equal / 4, f"{too_large} refused, {equal} answered")
    return f"{equal} answers equal, {too_large} too large for the cache, {pauses:.0f} pauses"


ATTACKS = [Attack("squeezed", squeezed, quick=False, seconds=1800)]

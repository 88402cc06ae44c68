#!/usr/bin/env python3
"""Words that must not come back: each had another meaning beside, or was nobody's but ours.

A line of WORDS says what is banned (a regular expression, or a plain word), where (folders or files of the tree), and
what to say instead. Names of files count as well. What users see, as fields of JSON, flags, metrics and the log, keeps
its words: such a line is excused where it stands, in EXCUSED."""
import pathlib
import re
import subprocess
import sys

SUFFIXES = (".h", ".cpp", ".cu", ".cuh", ".md", ".txt", ".py", ".cmake")
CODE = ("src", "tests", "bench", "fuzz", "include", "docs")
SERVER = ("src/server", "tests/server", "fuzz")
ENGINE = ("src/engine", "tests/engine", "tests/laws", "bench/host_bench.cpp")
CUDA = ("src/backend/cuda", "bench/cuda", "tests/backend")

WORDS = (
    # the cache
    (r"\b(let_go|settle|deal_pages|give_page|page_to_spare|shed|gather|evict_from)\(", ("src/kv",),
     "unref_block, retire, assign_pages, reassign_page, donor_page, evict_over_quota, ensure_blocks, evict_subtree"),
    (r"\bhold\((Group|group)", ("src/kv",), "ref_block"),
    (r"\bkCovered\b|\bmake_covered\b", CODE, "kInterior, make_interior"),
    (r"\bwidest\b|\bwidest_of\b", ("src/kv",), "full_attention_group"),
    (r"\bblock_names\b|\bcache_names\b", CODE, "block_keys, cache_keys"),
    (r"\bslots?\b|\bSlot\b", ("src/kv", "src/layout"), "block_index for a block in a table, token_in_block for a token"),
    (r"\bblocks_holding\b", CODE, "blocks_for, of base/ids.h"),
    (r"\bRetention&? finer\b|\bfiner\.|\.finer\b", CODE, "recent_override"),
    (r"\bsink_positions?_?\b", CODE, "sink_query_position"),
    # models and backends
    (r"\bAngleTable\b|\bangle_table\b|\bsend_places\b", CODE, "RopeCache, rope_cache, upload_rope_rows"),
    (r"\bLastBatch\b|\brepeat_batch\b|\bneeds_the_same_ops\b", CODE, "ReplayKey, replay_batch, matches"),
    (r"\broom_for_cache\b", CODE, "default_cache_bytes"),
    (r"\bknown_shapes\b|\bmodel/shapes\b", CODE, "known_models"),
    (r"\bWeightForm\b|\bweight_form\b|\bActivations(::| \w+ =|&? activations\b)", CODE,
     "WeightQuantization, ActivationPrecision"),
    (r"\bDrawRule\b|\bDrawTicket\b|\bkNoDraw\b|\btake_drawn\b|\blast_draw\b|\bdrawn_token\b|\bis_drawn\b|base/draw\.h", CODE,
     "SampleRule, SampleTicket, kNoSample, take_sampled, last_sample, sampled_token, is_sampled, base/sample_rule.h"),
    (r"\bdraw(n|s|ing)?\b|\bdraw_\w+", ("src/grammar",), "build: a grammar's rules are built, tokens are sampled"),
    # the engine
    (r"\bFlights?\b|\bflying_\b|\bin_the_air\b|\btake_off\b|\bfly_ahead\b|\bland_each\b|\bin the air\b", ENGINE,
     "InFlightStep, in flight, sample_on_device, schedule_ahead, collect_outputs"),
    (r"\bFormations?\b|\bFormationMember\b|\bform_up\b|\bbreak_up\b|\bcatch_up\(", ENGINE, "SteadyBatch, DecodeSlot, enter, leave"),
    (r"\bPlannedRows\b|\bstanding_still\b|\bsettled\(|\banswered\(|\bsteps_ahead\(", ENGINE,
     "ScheduledTokens, stalled, no_admission_pending, num_output_tokens"),
    (r"\bPinBoard\b|\bPolicyBook\b|\bHostRoom\b|\bSavedBytes\b|\bSequenceRows\b", CODE,
     "PrefixPins, PolicyRegistry, HostPool, HostSpan, TokenRows"),
    (r"\bPauseChoice\b|\bchoose_pause\b|\bpause_choice\b|\bPauseNews\b|\bPace\b", ENGINE, "Preemption, choose_preemption, CostModel"),
    (r"\bkHouse\b|\bkv_of_house\b|\bOrigin::kEngine\b|\bengine_setup\b", CODE, "kSystemTenant, internal_policies, kInternal"),
    (r"\bDrawingBackend\b|\bdrawing_backend\b", CODE, "SamplingBackend"),
    # CUDA
    (r"\b[Cc]opy engine\b|\bsecond-level cache\b|\bthread blocks?\b|\bforerunners?\b|\bboxed\b|\bbegun\b|\bwiden(ed)?\b|\bunturned\b",
     ("src/backend/cuda", "bench/cuda"), "TMA, L2, CTA, PDL, prefix partials, dequantize, before RoPE"),
    (r"\bprocessors?\b|\bteams?\b|\bfeeder\b|\bfold(ed)?\b", ("src/backend/cuda",), "SM, low latency, producer, merge"),
    (r"\blaunch_early\b|\bbegins_early\b|\btakes_boxes\b|\bhas_copy_engine\b|\bBoxed\w+|\bFolded?\w*Sums\b|\bBegunSums\b", CUDA,
     "launch_pdl, uses_tma, TmaTile, PartialSums, PrefixPartials"),
    (r"\bRowsRoom\b|\bProductTuner\b|\bLtProduct\b|\bStreamProduct\b|\bCodedProducts?\b|\bWideRoom\b|\bDrawnRows\b|\bDrawnTokens\b", CUDA,
     "GemmInput, Autotuner, CublasLtGemm, SkinnyGemm, W8Gemm, DequantWorkspace, SampledRows, SampledTokens"),
    (r"\bvisit_on_device\b|\bBatchGraphs\b|\bRepeatableBatch\b", CODE, "visit_codec, GraphCache, ReplayableBatch"),
    # the server
    (r"\bBeginning\b|\bbeginning\.", SERVER, "AnswerJob"),
    (r"\bAnswerWork::Books\b|\bbooks_\b", SERVER, "AnswerContext"),
    (r"\bShelf\b|\bshelves_\b", SERVER, "by_tenant_"),
    (r"\bDoor\b|\bdoors_\b", SERVER, "KeySlot"),
    (r"\bleader\b|\b[Ff]ollowers\b", SERVER, "prompt owner, siblings"),
    (r"\bAnswerForms?\b|\banswer_form\b", CODE, "ResponseFormat, response_format"),
    (r"\b[Mm]ailbox|\bTokenNews\b|\bon_news\b|\bnews_?\b", SERVER, "TokenQueue, TokenEvent, on_event"),
    (r"\bCacheMarks?\b|cache_marks\b|\bprompt_marks\b|\bMarkedChat\b", CODE,
     "CacheBreakpoint, cache_breakpoints, text_offsets, ChatSource"),
    # planning, tuning, the program
    (r"\bWayOut\b|\bWaysOut\b|\bways_out\b", CODE, "Suggestion, suggestions"),
    (r"\bJudge\b(?! ?,)|tune/judge\b", ("src/tune", "src/cli", "tests/tune"), "PolicyEvaluator"),
    (r"\bDisturbedBackend\b|\bdisturbed_backend\b|\bHeadDisturbance\b", CODE, "QuantizeOneHeadBackend, QuantizedHead"),
    (r"\bbench_turns\b|\bTurns(Test|Result|Bench)\b", CODE, "bench_versus, VersusTest"),
    (r"\btwo_samples\b|cli/reading\b", CODE, "two_sample_tests, eval_text"),
)
# Of these a line may have the word: (file, text of the line)
EXCUSED = (
    ("src/cli/plan_command.cpp", '"ways_out"'),
    ("tests/plan/plan_command_test.cpp", '"ways_out"'),
    ("tests/cli/program_test.cpp", '"ways_out"'),
    ("docs/planning.md", "`ways_out`"),
)
COMPILED = tuple((re.compile(word), where, instead) for word, where, instead in WORDS)
OWN = "tests/project/check_words.py"


def lies_in(name, where):
    return any(name == place or name.startswith(place + "/") for place in where)


def excused(name, line):
    return any(name == file and text in line for file, text in EXCUSED)


def problems_in(name, text):
    """name: path below the root, such as src/kv/cache.cpp."""
    for word, where, instead in COMPILED:
        if not lies_in(name, where):
            continue
        if (found := word.search(name)):
            yield f"{name}: a file called {found.group().strip()}; say {instead}"
        if not word.search(text):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            found = word.search(line)
            if found and not excused(name, line):
                yield f"{name}:{number}: {found.group().strip()}; say {instead}"


def self_test():
    assert len(list(problems_in("src/kv/cache.cpp", "  shed(state);\n  x;\n  let_go(group, block);"))) == 2
    assert list(problems_in("src/engine/cache.cpp", "shed(state);")) == []
    assert list(problems_in("src/kv/cache.cpp", "// A lease lets go of its blocks: settled, shedding nothing.")) == []
    assert len(list(problems_in("src/layout/kv_view.h", "int slot = 0;"))) == 1
    assert len(list(problems_in("src/layout/kv_view.h", "  Retention finer{};"))) == 1
    assert list(problems_in("src/layout/kv_view.h", "// in a finer format")) == []
    assert len(list(problems_in("tests/server/mailbox_test.cpp", ""))) == 1
    assert len(list(problems_in("src/server/answer/mailbox.h", ""))) == 1
    assert len(list(problems_in("docs/x.md", "| `AngleTable` |\n`WeightForm`"))) == 2
    assert len(list(problems_in("src/engine/step/x.h", "class Formation {};  // in the air"))) == 2
    assert len(list(problems_in("src/backend/cuda/x.cu", "// the copy engine"))) == 1
    assert list(problems_in("docs/planning.md", "`fits`, `ways_out` (`what`)")) == []
    assert len(list(problems_in("docs/plan.md", "`fits`, `ways_out` (`what`)"))) == 1
    assert list(problems_in("tests/cli/isolation_probe_test.cpp", "TEST(Judge, TimesAloneCanTell) {")) == []
    assert all(text for _, text in EXCUSED) and all(where for _, where, _ in WORDS)


def tracked(root):
    if not (root / ".git").exists():
        return [path.relative_to(root).as_posix() for folder in CODE for path in sorted((root / folder).rglob("*"))]
    listed = subprocess.run(["git", "-c", f"safe.directory={root}", "-C", root, "ls-files", "-z"], check=True, capture_output=True)
    return [name for name in listed.stdout.decode().split("\0") if name]


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1])
    names = [name for name in tracked(root) if name.endswith(SUFFIXES) and name != OWN and (root / name).is_file()]
    found = [problem for name in names for problem in problems_in(name, (root / name).read_text())]
    gone = [f"{OWN} excuses {file}, which is not there" for file, _ in EXCUSED if file not in names]
    print("\n".join(found + gone) or f"{len(names)} files have none of {len(WORDS)} kinds of old words")
    sys.exit(1 if found + gone else 0)


if __name__ == "__main__":
    main()

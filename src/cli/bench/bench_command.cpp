#include "cli/bench/bench_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/loaded_model.h"
#include "backend/cpu/machine_limits.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/make_backend.h"
#include "base/bytes.h"
#include "base/error.h"
#include "cli/bench/bench_draft.h"
#include "cli/bench/bench_load.h"
#include "cli/bench/bench_profile.h"
#include "cli/bench/bench_runs.h"
#include "cli/bench/bench_versus.h"
#include "cli/model_options.h"
#include "cli/policy_file.h"
#include "cli/progress.h"
#include "layout/codec.h"
#include "model/known_models.h"
#include "model/random_model.h"

namespace kvasir {
namespace {

struct BenchOptions {
  ModelOptions model;
  std::string shape;  // instead of a model
  LoadTest load;
  std::int64_t hit = 0;
  std::vector<std::int64_t> prefill;
  std::vector<std::int64_t> decode;
  std::vector<std::int64_t> depths{0};
  std::vector<int> batches{1};
  bool shared = false;
  std::vector<std::string> versus;  // policies
  std::vector<std::string> tasks;   // of --draft; none: all, of --text that one
  std::string text;                 // a file
  int repeats = 3;
  bool json = false;
  bool profile = false;
};

struct BenchReport {
  std::string model;
  std::string backend;
  bool cached = true;
  std::string kv;       // the policy
  std::string weights;  // as the option says
  std::vector<BenchResult> results;
  std::optional<LoadResult> load;
  std::optional<HitResult> hit;
  std::vector<VersusResult> turns;
  std::vector<DraftResult> drafts;
};

std::vector<BenchTest> tests_of(const BenchOptions& options) {
  std::vector<std::int64_t> prefill = options.prefill;
  std::vector<std::int64_t> decode = options.decode;
  if (!options.versus.empty()) {
    if (!prefill.empty() || options.batches != std::vector{1} || options.shared || options.model.no_cache) {
      fail_usage("policies are compared by how one sequence decodes over its cache", "--versus",
                 "leave -p, -b, --shared-prefix and --no-cache out");
    }
    if (decode.empty()) decode = {8};
  } else if (prefill.empty() && decode.empty() && options.load.requests == 0 && options.hit == 0) {
    prefill = {512};
    decode = {128};
  }
  std::vector<BenchTest> tests;
  for (const std::int64_t depth : options.depths) {
    for (const std::int64_t n : prefill) tests.push_back({BenchTest::Kind::kPrefill, n, depth});
    for (const std::int64_t n : decode) {
      for (const int batch : options.batches) {
        tests.push_back({BenchTest::Kind::kDecode, n, depth, batch,
                         options.shared ? BenchTest::Depth::kShared : BenchTest::Depth::kOwn});
      }
    }
  }
  for (const BenchTest& test : tests) {
    if (test.tokens < 1 || test.depth < 0 || test.batch < 1) {
      fail_usage("counts are positive, depths not negative", "bench", "try -p 512 -n 128 -d 0,2048 -b 1,16");
    }
  }
  const LoadTest& load = options.load;
  if (load.requests < 0 || load.prompt < 1 || load.generate < 2 || options.hit < 0) {
    fail_usage("a load needs requests with a prompt and two tokens of answer at least", "bench",
               "try --requests 64 --prompt 512 --generate 128");
  }
  if (options.repeats < 1) fail_usage("there must be at least one repeat", "--repeats", "try 3");
  return tests;
}

// Without a context and a swap of its own: each test has what it needs.
EngineConfig config_of(const ModelOptions& options) {
  EngineConfig config = engine_config(options_of_any_model(options));
  config.context = 0;
  config.swap_bytes.reset();
  return config;
}

std::unique_ptr<Limits> limits_of(const ModelOptions& options, const Model& model) {
  if (device_named(options.device).starts_with("cuda")) return make_cuda_limits(model.weight_memory());
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  Isa isa = parse_isa(options.isa);
  if (isa == Isa::kAvx512Dot && parse_activation_precision(options.activations) == ActivationPrecision::kF32)
    isa = Isa::kAvx512;
  return std::make_unique<MachineLimits>(isa, options.threads > 0 ? options.threads : cores, model.weight_memory());
}

std::unique_ptr<Backend> backend_of(const BenchOptions& options) {
  return make_backend({options.model.device, options.model.threads, options.model.isa,
                       parse_activation_precision(options.model.activations)});
}

// A shape's weights are made in a type of their own, or in one that --weights names beside its forms.
ModelSpec shape_of(const BenchOptions& options) {
  ModelSpec config = parse_shape(options.shape);
  const std::optional<DType> type = weight_type_named(options.model.weights);
  if (!type) return config;
  if (is_quantized(*type)) {
    fail_usage(fmt::format("'{}' is not a type that weights can be made in", options.model.weights), "--weights",
               "use bf16, f16 or f32, or make them int8 or fp8 on a GPU");
  }
  config.dtype = *type;
  return config;
}

WeightQuantization form_of(const BenchOptions& options) {
  if (!weight_type_named(options.model.weights)) return parse_weight_quantization(options.model.weights);
  if (options.shape.empty()) {
    fail_usage("a model's weights have their type", "--weights",
               "give --shape, or convert the model, or make them int8 or fp8 on a GPU");
  }
  return WeightQuantization::kAsStored;
}

struct BenchModel {
  std::string name;
  std::unique_ptr<Model> model;
};

BenchModel model_of(const BenchOptions& options, Backend& backend) {
  const WeightQuantization form = form_of(options);
  if (!options.shape.empty() && !options.model.model.empty()) {
    fail_usage("a model and a shape are given", "--shape", "give one of them");
  }
  Progress loading(options.shape.empty() ? "loading" : "making weights");
  LoadOptions load{batch_tokens(options.model.max_batch_tokens, options.model.device),
                   [&loading](int done, int all) {
                     loading.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(all));
                   },
                   {},
                   form};
  if (!options.shape.empty()) return {options.shape, make_random_model(shape_of(options), backend, load, 1)};
  const std::filesystem::path folder = find_model(options.model.model);
  load.kv_basis = find_kv_basis(options.model.kv_basis, folder);
  return {folder.filename().string(), load_model(folder, backend, load)};
}

void profile(const BenchOptions& options) {
  const auto backend = backend_of(options);
  ProfileBackend timed(*backend);
  const auto model = model_of(options, timed).model;
  const std::int64_t tokens = options.decode.empty() ? 64 : options.decode.front();
  if (tokens < 1 || options.depths.front() < 0) tests_of(options);  // says what is wrong
  const StepProfile steps = profile_decode(timed, *model, config_of(options.model), options.depths.front(), tokens);
  const double read = limits_of(options.model, *model)->read_bytes_per_second();
  if (options.json) {
    fmt::print("{}\n", profile_json(steps, read));
  } else {
    print_profile(steps, read);
  }
}

std::vector<VersusResult> run_versus(const BenchOptions& options, Backend& backend, Model& model) {
  const std::vector<BenchTest> tests = tests_of(options);
  std::vector<KvPolicy> policies{config_of(options.model).kv};
  for (const std::string& text : options.versus) {
    policies.push_back(parse_kv_policy(policy_argument(text, "--versus"), "--versus"));
  }
  Progress progress("filling caches");
  const std::uint64_t all = policies.size() * tests.size();
  std::uint64_t done = 0;
  std::vector<VersusResult> out;
  VersusBench bench(backend, model, config_of(options.model));
  for (const BenchTest& test : tests) {
    const auto results =
        bench.run(policies, {test.tokens, test.depth, options.repeats}, [&] { progress.show(++done, all); });
    out.insert(out.end(), results.begin(), results.end());
  }
  return out;
}

DraftBenchOptions draft_options_of(const BenchOptions& options) {
  return {options.model,
          options.tasks,
          options.text,
          options.batches,
          options.prefill.empty() ? 256 : options.prefill.front(),
          options.decode.empty() ? 128 : options.decode.front(),
          options.repeats};
}

BenchReport measure(const BenchOptions& options) {
  const std::vector<BenchTest> tests = tests_of(options);
  const EngineConfig config = config_of(options.model);
  WaitBackend backend(backend_of(options));
  const auto [name, model] = model_of(options, backend);
  BenchReport report;
  report.model = name;
  report.backend = backend.description();
  report.cached = !options.model.no_cache;
  report.kv = to_text(config.kv);
  report.weights = options.model.weights;
  const std::unique_ptr<Limits> limits = limits_of(options.model, *model);

  if (!options.versus.empty()) {
    report.turns = run_versus(options, backend, *model);
    return report;
  }
  if (options.model.draft != "off") {
    report.drafts = bench_drafts(draft_options_of(options), config, backend, *model);
    return report;
  }
  Progress progress("measuring");
  Bench bench(backend, *model, config, limits.get());
  const std::uint64_t all = tests.size() * static_cast<std::uint64_t>(options.repeats);
  std::uint64_t done = 0;
  for (const BenchTest& test : tests) {
    report.results.push_back(bench.run(test, options.repeats, [&] { progress.show(++done, all); }));
  }
  LoadBench load(backend, *model, config);
  if (options.load.requests > 0) report.load = load.run(options.load, options.repeats);
  if (options.hit > 0) report.hit = load.hit(options.hit, options.repeats);
  return report;
}

std::string name_of(const BenchTest& test) {
  std::string name = fmt::format("{} {}", test.kind == BenchTest::Kind::kPrefill ? "prefill" : "decode", test.tokens);
  if (test.batch > 1) name += fmt::format(" x {}", test.batch);
  if (test.depth == 0) return name;
  return name + fmt::format(" {} {}", test.of == BenchTest::Depth::kShared ? "behind" : "at", test.depth);
}

bool is_decode(const BenchResult& result) { return result.test.kind == BenchTest::Kind::kDecode; }

std::vector<double> readings(const BenchReport& report, BenchTest::Kind kind) {
  std::vector<double> out;
  for (const BenchResult& r : report.results) {
    if (r.test.kind == kind) out.insert(out.end(), r.limits.begin(), r.limits.end());
  }
  return out;
}

void print_machine(const BenchReport& report) {
  const auto line = [](const char* what, const std::vector<double>& values, const char* unit) {
    if (values.empty()) return;
    const Spread s = spread_of(values);
    fmt::print("{:<28} {:.1f} {} ({:.1f} to {:.1f} in {} readings)\n", what, s.median / 1e9, unit, s.least / 1e9,
               s.most / 1e9, values.size());
  };
  line("machine reads these weights:", readings(report, BenchTest::Kind::kDecode), "GB/s");
  line("machine multiplies and adds:", readings(report, BenchTest::Kind::kPrefill), "GFLOP/s");
}

void print_results(const BenchReport& report) {
  fmt::print("\n{:<22} {:>12} {:>12} {:>10} {:>10} {:>8} {:>12}\n", "test", "tokens/s", "ms/token", "GB/s", "GFLOP/s",
             "of best", "spread");
  for (const BenchResult& r : report.results) {
    std::string gbs;
    std::string gflops;
    std::string share;
    std::string spread;
    if (report.cached) {  // without the cache a token's work grows with its place
      // Reading every weight once a token is what decode does; a prefill reads them once for many.
      if (is_decode(r)) gbs = fmt::format("{:.1f}", r.bytes_per_token * r.tokens_per_second / 1e9);
      gflops = fmt::format("{:.1f}", r.flops_per_token * r.tokens_per_second / 1e9);
    }
    if (report.cached && !r.shares.empty()) {
      const Spread s = spread_of(r.shares);
      share = fmt::format("{:.0f}%", 100 * s.median);
      spread = fmt::format("{:.0f}-{:.0f}%", 100 * s.least, 100 * s.most);
    }
    fmt::print("{:<22} {:>12.1f} {:>12.3f} {:>10} {:>10} {:>8} {:>12}\n", name_of(r.test), r.tokens_per_second,
               1e3 / r.tokens_per_second, gbs, gflops, share, spread);
  }
  const auto has_share = [](const BenchResult& r) { return !r.shares.empty(); };
  if (!report.cached || std::ranges::none_of(report.results, has_share)) return;
  fmt::print(
      "\nof best: decode of the read speed, prefill of the multiply-adds, both taken before and after every\n"
      "repeat: the median of the repeats' shares, and their spread.\n");
}

void print_table(const BenchReport& report) {
  const std::string weights =
      report.weights == kvasir::name_of(WeightQuantization::kAsStored) ? "" : report.weights + " weights, ";
  fmt::print("{} on {}, {}{} KV{}\n", report.model, report.backend, weights, report.kv,
             report.cached ? "" : ", no cache");
  print_machine(report);
  if (!report.results.empty()) print_results(report);
  if (report.load) print_load(*report.load);
  if (report.hit) print_hit(*report.hit);
  if (!report.turns.empty()) print_versus(report.turns);
  if (!report.drafts.empty()) print_drafts(report.drafts);
}

nlohmann::ordered_json to_json(const BenchReport& report, const BenchResult& r) {
  nlohmann::ordered_json out{{"test", is_decode(r) ? "decode" : "prefill"},
                             {"tokens", r.test.tokens},
                             {"depth", r.test.depth},
                             {"batch", r.test.batch},
                             {"shared_depth", r.test.of == BenchTest::Depth::kShared},
                             {"seconds", r.seconds},
                             {"median_seconds", r.median_seconds},
                             {"tokens_per_second", r.tokens_per_second},
                             {"bytes_per_token", r.bytes_per_token},
                             {"flops_per_token", r.flops_per_token}};
  if (!report.cached || r.shares.empty()) return out;
  const Spread share = spread_of(r.shares);
  out[is_decode(r) ? "read_bytes_per_second_readings" : "flops_per_second_readings"] = r.limits;
  out["shares"] = r.shares;
  out["share"] = {{"least", share.least}, {"median", share.median}, {"most", share.most}};
  return out;
}

void print_json(const BenchReport& report) {
  nlohmann::ordered_json out{{"model", report.model},     {"backend", report.backend},
                             {"weights", report.weights}, {"kv", report.kv},
                             {"cache", report.cached},    {"results", nlohmann::ordered_json::array()}};
  for (const BenchResult& r : report.results) out["results"].push_back(to_json(report, r));
  if (report.load) out["load"] = load_json(*report.load);
  if (report.hit) out["hit"] = hit_json(*report.hit);
  if (!report.turns.empty()) out["turns"] = versus_json(report.turns);
  if (!report.drafts.empty()) out["drafts"] = drafts_json(report.drafts);
  fmt::print("{}\n", out.dump(2));
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Measure prefill and decode against the machine's limits");
  command->add_option("-p,--prefill", options->prefill, "Prompt lengths to measure, like 128,512")->delimiter(',');
  command->add_option("-n,--decode", options->decode, "Answer lengths to measure, like 64,128")->delimiter(',');
  command->add_option("-d,--depth", options->depths, "Tokens already in the cache, like 0,2048")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("-b,--batch", options->batches, "Sequences that decode at once, like 1,4,16")
      ->delimiter(',')
      ->capture_default_str();
  command->add_flag("--shared-prefix", options->shared, "All sequences stand behind the same -d tokens");
  command->add_option("--requests", options->load.requests, "So many requests at once, through the engine");
  command->add_option("--prompt", options->load.prompt, "Tokens of each of them")->capture_default_str();
  command->add_option("--generate", options->load.generate, "Tokens of each answer")->capture_default_str();
  command->add_option("--versus", options->versus,
                      "Another KV policy, to be compared with --kv's: decode of -n tokens each, in -r turns");
  command
      ->add_option("--task", options->tasks,
                   "With --draft: edit, agent (texts that copy, of any model), noise, model, text; default: all")
      ->delimiter(',');
  command->add_option("--text", options->text, "With --draft: a file whose pieces are prompts of the task text");
  command->add_option("--hit", options->hit, "First token behind so many cached tokens, beside a decode step");
  command->add_option("--shape", options->shape,
                      "Random weights instead of a model: a known name (llama-3.1-8b), or layers=16,hidden=2048,…");
  command->add_option("-r,--repeats", options->repeats, "Repeats; the median counts")->capture_default_str();
  command->add_flag("--json", options->json, "Machine-readable output");
  command->add_flag("--profile", options->profile,
                    "Where the time of a decode step goes: op by op, behind -d tokens");
  add_model_options(*command, options->model);
  add_draft_options(*command, options->model);
  CLI::Option* weights = command->get_option("--weights");
  weights->description(weights->get_description() + "; of a --shape: bf16, f16 and f32 too");
  command->callback([options] {
    if (options->profile) return profile(*options);
    const BenchReport report = measure(*options);
    options->json ? print_json(report) : print_table(report);
  });
}

}  // namespace kvasir

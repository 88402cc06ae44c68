#include "cli/bench_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "backend/cpu/machine_limits.h"
#include "backend/make_backend.h"
#include "base/bytes.h"
#include "base/error.h"
#include "cli/bench_runs.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "layout/codec.h"

namespace kvasir {
namespace {

struct BenchOptions {
  ModelOptions model;
  std::vector<std::int64_t> prefill;
  std::vector<std::int64_t> decode;
  std::vector<std::int64_t> depths{0};
  int repeats = 3;
  bool json = false;
};

struct BenchReport {
  std::string model;
  std::string backend;
  bool cached = true;
  std::string kv_format;
  MachineLimits limits;
  std::vector<BenchResult> results;
};

std::vector<BenchTest> tests_of(const BenchOptions& options) {
  std::vector<std::int64_t> prefill = options.prefill;
  std::vector<std::int64_t> decode = options.decode;
  if (prefill.empty() && decode.empty()) {
    prefill = {512};
    decode = {128};
  }
  std::vector<BenchTest> tests;
  for (const std::int64_t depth : options.depths) {
    for (const std::int64_t n : prefill) tests.push_back({BenchTest::Kind::kPrefill, n, depth});
    for (const std::int64_t n : decode) tests.push_back({BenchTest::Kind::kDecode, n, depth});
  }
  for (const BenchTest& test : tests) {
    if (test.tokens < 1 || test.depth < 0)
      fail_usage("token counts are positive, depths not negative", "bench", "try -p 512 -n 128 -d 0,2048");
  }
  if (options.repeats < 1) fail_usage("there must be at least one repeat", "--repeats", "try 3");
  return tests;
}

EngineConfig config_of(const ModelOptions& options) {
  EngineConfig config;
  config.k_format = config.v_format = parse_kv_format(options.kv_dtype);
  config.block_tokens = options.block_size;
  if (!options.kv_memory.empty()) config.kv_bytes = parse_bytes(options.kv_memory, "--kv-memory");
  config.eviction = options.eviction;
  config.mode = options.no_cache ? EngineConfig::Mode::kRecompute : EngineConfig::Mode::kCached;
  config.scheduler.max_batch_tokens = options.max_batch_tokens;
  return config;
}

BenchReport measure(const BenchOptions& options) {
  const std::vector<BenchTest> tests = tests_of(options);
  const std::filesystem::path folder = find_model(options.model.model);
  const EngineConfig config = config_of(options.model);
  const auto backend = make_backend({options.model.device, options.model.threads, options.model.isa});
  std::unique_ptr<Model> model;
  {
    Progress loading("loading");
    model = load_model(folder, *backend, {options.model.max_batch_tokens, [&loading](int done, int all) {
                                            loading.show(static_cast<std::uint64_t>(done),
                                                         static_cast<std::uint64_t>(all));
                                          }});
  }
  BenchReport report;
  report.model = folder.filename().string();
  report.backend = backend->description();
  report.cached = !options.model.no_cache;
  report.kv_format = options.model.kv_dtype;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  report.limits = measure_machine(parse_isa(options.model.isa),
                                  options.model.threads > 0 ? options.model.threads : cores, model->weight_memory());

  Progress progress("measuring");
  Bench bench(*backend, *model, config);
  const std::uint64_t all = tests.size() * static_cast<std::uint64_t>(options.repeats);
  std::uint64_t done = 0;
  for (const BenchTest& test : tests) {
    report.results.push_back(bench.run(test, options.repeats, [&] { progress.show(++done, all); }));
  }
  return report;
}

std::string name_of(const BenchTest& test) {
  const char* kind = test.kind == BenchTest::Kind::kPrefill ? "prefill" : "decode";
  return test.depth == 0 ? fmt::format("{} {}", kind, test.tokens)
                         : fmt::format("{} {} at {}", kind, test.tokens, test.depth);
}

void print_table(const BenchReport& report) {
  fmt::print("{} on {}, {} KV{}\n", report.model, report.backend, report.kv_format,
             report.cached ? "" : ", no cache");
  fmt::print("machine: reads these weights at {:.1f} GB/s, multiplies and adds {:.0f} GFLOP/s\n\n",
             report.limits.read_bytes_per_second / 1e9, report.limits.flops_per_second / 1e9);
  fmt::print("{:<22} {:>12} {:>12} {:>10} {:>8} {:>10} {:>8}\n", "test", "tokens/s", "ms/token", "GB/s", "of best",
             "GFLOP/s", "of best");
  for (const BenchResult& r : report.results) {
    // Reading every weight once a token is what decode does; a prefill reads them once for many.
    const double bytes =
        r.test.kind == BenchTest::Kind::kDecode && report.cached ? r.bytes_per_token * r.tokens_per_second : 0;
    const double flops = report.cached ? r.flops_per_token * r.tokens_per_second : 0;
    const auto cell = [](double value, double best) {
      return value > 0 ? std::pair(fmt::format("{:.1f}", value / 1e9), fmt::format("{:.0f}%", 100 * value / best))
                       : std::pair<std::string, std::string>("", "");
    };
    const auto [gbs, gbs_share] = cell(bytes, report.limits.read_bytes_per_second);
    const auto [gflops, gflops_share] = cell(flops, report.limits.flops_per_second);
    fmt::print("{:<22} {:>12.1f} {:>12.3f} {:>10} {:>8} {:>10} {:>8}\n", name_of(r.test), r.tokens_per_second,
               1e3 / r.tokens_per_second, gbs, gbs_share, gflops, gflops_share);
  }
}

void print_json(const BenchReport& report) {
  nlohmann::ordered_json out{{"model", report.model},
                             {"backend", report.backend},
                             {"kv_format", report.kv_format},
                             {"cache", report.cached},
                             {"machine",
                              {{"read_bytes_per_second", report.limits.read_bytes_per_second},
                               {"flops_per_second", report.limits.flops_per_second}}},
                             {"results", nlohmann::ordered_json::array()}};
  for (const BenchResult& r : report.results) {
    out["results"].push_back({{"test", r.test.kind == BenchTest::Kind::kPrefill ? "prefill" : "decode"},
                              {"tokens", r.test.tokens},
                              {"depth", r.test.depth},
                              {"seconds", r.seconds},
                              {"median_seconds", r.median_seconds},
                              {"tokens_per_second", r.tokens_per_second},
                              {"bytes_per_token", r.bytes_per_token},
                              {"flops_per_token", r.flops_per_token}});
  }
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
  command->add_option("-r,--repeats", options->repeats, "Repeats; the median counts")->capture_default_str();
  command->add_flag("--json", options->json, "Machine-readable output");
  add_model_options(*command, options->model);
  command->callback([options] {
    const BenchReport report = measure(*options);
    options->json ? print_json(report) : print_table(report);
  });
}

}  // namespace kvasir

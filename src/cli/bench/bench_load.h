// kvasir bench --requests and --hit: many requests through the engine at once, and how soon a cached prompt answers.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backend/forwarding_backend.h"
#include "engine/engine.h"
#include "model/model.h"

namespace kvasir {

// A backend that keeps an eye on how long its caller waited for results: what is left of a step is the host's own
// work.
class WaitBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  void download(std::span<std::byte> to, const std::byte* from) override;
  void take_sampled(SampleTicket ticket, std::span<TokenId> tokens) override;
  BatchId end_batch() override { return plain().end_batch(); }
  bool replay_batch(BatchId batch, const BatchInputs& inputs) override { return plain().replay_batch(batch, inputs); }

  double waited() const { return waited_; }  // seconds since it was made

 private:
  double waited_ = 0;
};

struct LoadTest {
  int requests = 0;  // all there from the start
  std::int64_t prompt = 512;
  std::int64_t generate = 128;  // tokens of each answer
};

struct LoadResult {
  LoadTest test;
  int runs = 1;
  double seconds = 0;                // from the first submit to the last token
  std::vector<double> first_tokens;  // seconds, one a request and run, ascending
  // Of the steps in which every running request got a token, ascending: all of the step, and the host's part of it.
  std::vector<double> steps;
  std::vector<double> host;
  std::int64_t ahead = 0;  // steps that were begun before the tokens of the one before were known

  double tokens_per_second() const { return static_cast<double>(test.requests * test.generate) / seconds; }
};

struct HitResult {
  std::int64_t tokens = 0;
  double first_token = 0;  // seconds from submit, behind a cached prefix of so many tokens; median of the repeats
  double step = 0;         // seconds of a decode step there
};

class LoadBench {
 public:
  LoadBench(WaitBackend& backend, Model& model, EngineConfig config)
      : backend_(backend), model_(model), config_(std::move(config)) {}

  // Prompts have nothing in common. The load runs once unmeasured, with other prompts, and then `repeats` times: see
  // median_load().
  LoadResult run(const LoadTest& test, int repeats);
  HitResult hit(std::int64_t tokens, int repeats);

 private:
  EngineConfig config_for(std::int64_t longest, std::int64_t sequences) const;
  LoadResult once(Engine& engine, const LoadTest& test, std::uint64_t seed);

  WaitBackend& backend_;
  Model& model_;
  EngineConfig config_;
};

// As long as the median of these, with the requests and steps of all of them. REQUIRES: there is one.
LoadResult median_load(const std::vector<LoadResult>& runs);

double percentile(const std::vector<double>& ascending, double share);  // 0 of none

void print_load(const LoadResult& result);
void print_hit(const HitResult& result);
nlohmann::ordered_json load_json(const LoadResult& result);
nlohmann::ordered_json hit_json(const HitResult& result);

}  // namespace kvasir

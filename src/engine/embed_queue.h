// Texts to be embedded, from many threads, on the engine's thread between its steps: one batch of the Embedder at a
// time, of all that wait together. Whose text is next: the tenant's for whom fewest tokens were read of those who
// wait, and within a tenant who came first.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/embedder.h"
#include "engine/engine_thread.h"

namespace kvasir {

class EmbedQueue {
 public:
  using Tokens = std::vector<TokenId>;
  using JobId = std::uint64_t;
  struct Outcome {
    std::vector<std::string> parts;  // what was made of each text's vector, in their order
    std::string failure;             // what went wrong; empty: nothing
  };
  // Both on the engine's thread. The first one's time is the tenant's; the second must be quick.
  using MakePart = std::function<std::string(std::vector<float> vector)>;
  using OnDone = std::function<void(Outcome)>;

  // The engine's thread ends before this does; the embedder's model is the engine's, or nobody else's.
  EmbedQueue(EngineThread& engine, Embedder& embedder) : engine_(engine), embedder_(embedder) {}

  // REQUIRES: at least one text, all of which the embedder's check() lets pass.
  JobId submit(std::uint32_t tenant, std::vector<Tokens> texts, MakePart make_part, OnDone on_done);
  void cancel(JobId id);  // nobody hears of it any more

 private:
  struct Job {
    std::uint32_t tenant = 0;
    std::vector<Tokens> texts;
    MakePart make_part;
    OnDone on_done;
    size_t next = 0;  // of the texts
    Outcome outcome;
  };
  using Jobs = std::map<JobId, std::shared_ptr<Job>>;
  // A text in a batch. The job is held: it may be cancelled meanwhile.
  struct Picked {
    JobId id = 0;
    std::shared_ptr<Job> job;
    size_t text = 0;

    Embedder::Text tokens() const { return job->texts[text]; }
  };

  void arm();  // under mutex_
  std::vector<Picked> pick();
  Jobs::iterator next_job();
  void run_batch(Engine& engine);
  Outcome outcome_of(const std::vector<Picked>& batch);
  void finish(const std::vector<Picked>& batch, Outcome outcome);

  EngineThread& engine_;
  Embedder& embedder_;
  std::mutex mutex_;
  Jobs jobs_;                                       // under mutex_
  std::map<std::uint32_t, std::int64_t> served_{};  // under mutex_: tokens, of tenants who have jobs
  JobId next_id_ = 1;                               // under mutex_
  bool armed_ = false;                              // under mutex_: a batch is on its way
};

}  // namespace kvasir

// Texts to be embedded or scored, from many threads, on the engine's thread between its steps: one batch of the
// Embedder at a time, of all that wait together. Whose text is next: the tenant's for whom fewest tokens were read of
// those who wait, and within a tenant who came first.
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
  struct Text {
    std::vector<TokenId> tokens;
    std::vector<TokenId> types = {};  // as Embedder::Text's
  };
  using JobId = std::uint64_t;
  struct Outcome {
    std::vector<std::string> parts;  // what was made of what each text became, in their order
    std::string failure;             // what went wrong; empty: nothing
  };
  // Both on the engine's thread. The first one's time is the tenant's; the second must be quick.
  using MakePart = std::function<std::string(std::vector<float> vector)>;
  using OnDone = std::function<void(Outcome)>;

  // The engine's thread ends before this does; the embedder's model is the engine's, or nobody else's.
  EmbedQueue(EngineThread& engine, Embedder& embedder) : engine_(engine), embedder_(embedder) {}

  struct Asked {
    std::uint32_t tenant = 0;
    std::vector<Text> texts;
    const RowHead* head = nullptr;  // of all of them; it outlives the job
    MakePart make_part;
    OnDone on_done;
  };
  // REQUIRES: at least one text, all of which the embedder's check() lets pass.
  JobId submit(Asked asked);
  void cancel(JobId id);  // nobody hears of it any more

 private:
  struct Job {
    Asked asked;
    size_t next = 0;  // of the texts
    Outcome outcome;

    Embedder::Text view(size_t text) const { return {asked.texts[text].tokens, asked.texts[text].types, asked.head}; }
  };
  using Jobs = std::map<JobId, std::shared_ptr<Job>>;
  // A text in a batch. The job is held: it may be cancelled meanwhile.
  struct Picked {
    JobId id = 0;
    std::shared_ptr<Job> job;
    size_t text = 0;

    Embedder::Text view() const { return job->view(text); }
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

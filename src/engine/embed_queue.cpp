#include "engine/embed_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace kvasir {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

EmbedQueue::JobId EmbedQueue::submit(Asked asked) {
  const std::uint32_t tenant = asked.tenant;
  auto job = std::make_shared<Job>();
  job->outcome.parts.resize(asked.texts.size());
  job->asked = std::move(asked);
  const std::lock_guard lock(mutex_);
  const JobId id = next_id_++;
  if (!served_.contains(tenant)) {  // who comes anew has no claim on what was before
    const auto least = std::ranges::min_element(served_, {}, [](const auto& one) { return one.second; });
    served_[tenant] = least == served_.end() ? 0 : least->second;
  }
  jobs_.emplace(id, std::move(job));
  arm();
  return id;
}

void EmbedQueue::cancel(JobId id) {
  const std::lock_guard lock(mutex_);
  jobs_.erase(id);
}

void EmbedQueue::arm() {
  if (std::exchange(armed_, true)) return;
  engine_.post_work([this](Engine& engine) { run_batch(engine); });
}

// The first job of the least served tenant that has texts to read.
EmbedQueue::Jobs::iterator EmbedQueue::next_job() {
  auto best = jobs_.end();
  for (auto it = jobs_.begin(); it != jobs_.end(); ++it) {
    const Job& job = *it->second;
    if (job.next == job.asked.texts.size()) continue;
    if (best == jobs_.end() || served_[job.asked.tenant] < served_[best->second->asked.tenant]) best = it;
  }
  return best;
}

std::vector<EmbedQueue::Picked> EmbedQueue::pick() {
  std::vector<Picked> out;
  std::vector<Embedder::Text> texts;
  for (auto next = next_job(); next != jobs_.end(); next = next_job()) {
    Job& job = *next->second;
    texts.push_back(job.view(job.next));
    if (embedder_.fit(texts) < texts.size()) break;
    served_[job.asked.tenant] += std::ssize(texts.back().tokens);
    out.push_back({next->first, next->second, job.next++});
  }
  return out;
}

EmbedQueue::Outcome EmbedQueue::outcome_of(const std::vector<Picked>& batch) {
  Outcome out;
  try {
    std::vector<Embedder::Text> texts;
    texts.reserve(batch.size());
    for (const Picked& one : batch) texts.push_back(one.view());
    std::vector<std::vector<float>> vectors = embedder_.run(texts);
    for (size_t i = 0; i < batch.size(); ++i)
      out.parts.push_back(batch[i].job->asked.make_part(std::move(vectors[i])));
  } catch (const std::exception& error) {
    out.failure = error.what();
  }
  return out;
}

// One batch of all that wait, whose time is shared out by their tokens.
void EmbedQueue::run_batch(Engine& engine) {
  std::vector<Picked> batch;
  {
    const std::lock_guard lock(mutex_);
    armed_ = false;
    batch = pick();
  }
  if (batch.empty()) return;
  const Clock::time_point began = Clock::now();
  engine.cache();  // a step that runs ahead is done with the model's memory first
  Outcome outcome = outcome_of(batch);
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  size_t tokens = 0;
  for (const Picked& one : batch) tokens += one.view().tokens.size();
  for (const Picked& one : batch) {
    const double share = static_cast<double>(one.view().tokens.size()) / static_cast<double>(tokens);
    engine.charge(one.job->asked.tenant, seconds * share);
  }
  finish(batch, std::move(outcome));
}

// Jobs hear of their end without the lock: they may ask for more.
void EmbedQueue::finish(const std::vector<Picked>& batch, Outcome outcome) {
  std::vector<std::shared_ptr<Job>> done;
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto found = jobs_.find(batch[i].id);
      if (found == jobs_.end()) continue;
      const std::shared_ptr<Job> job = found->second;
      const bool failed = !outcome.failure.empty();
      if (failed) {
        job->outcome = {{}, outcome.failure};
      } else {
        job->outcome.parts[batch[i].text] = std::move(outcome.parts[i]);
      }
      if (!failed && batch[i].text + 1 < job->asked.texts.size()) continue;
      jobs_.erase(found);
      done.push_back(job);
    }
    std::erase_if(served_, [this](const auto& one) {
      return std::ranges::none_of(jobs_, [&](const auto& job) { return job.second->asked.tenant == one.first; });
    });
    if (!jobs_.empty()) arm();
  }
  for (const std::shared_ptr<Job>& job : done) job->asked.on_done(std::move(job->outcome));
}

}  // namespace kvasir

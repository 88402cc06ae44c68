#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace kvasir {
namespace {

std::string escaped(std::string_view label) {
  std::string out;
  for (const char c : label) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// The page while it is written: every sample has the label model_name.
class Page {
 public:
  struct Family {
    std::string_view label;
    std::string_view name;
    std::string_view type;
    std::string_view help;
  };

  explicit Page(std::string_view model_name) : model_(fmt::format("model_name=\"{}\"", escaped(model_name))) {}

  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }

  template <class Number>
  void sample(Number value, std::string_view labels = {}, std::string_view suffix = {}) {
    text_ += fmt::format("{}{}{{{}{}{}}} {}\n", name_, suffix, model_, labels.empty() ? "" : ",", labels, value);
  }

  void one(std::string_view name, std::string_view type, std::string_view help, double value) {
    family(name, type, help);
    sample(value);
  }

  void histogram(std::string_view name, std::string_view help, const Histogram& histogram) {
    family(name, "histogram", help);
    std::int64_t total = 0;
    for (size_t i = 0; i < histogram.counts().size(); ++i) {
      total += histogram.counts()[i];
      const bool last = i == histogram.bounds().size();
      sample(total, fmt::format("le=\"{}\"", last ? "+Inf" : fmt::format("{}", histogram.bounds()[i])), "_bucket");
    }
    sample(histogram.sum(), {}, "_sum");
    sample(total, {}, "_count");
  }

  // A family with a sample for each of `rows`, under the label that names it.
  template <class Rows, class Value>
  void each(const Family& about, const Rows& rows, const Value& value) {
    family(about.name, about.type, about.help);
    for (const auto& row : rows) {
      sample(std::invoke(value, row), fmt::format("{}=\"{}\"", about.label, escaped(row.name)));
    }
  }

  std::string take() { return std::move(text_); }

 private:
  std::string model_;
  std::string name_;
  std::string text_;
};

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

void write_engine(Page& page, const EngineNumbers& engine) {
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  page.one("vllm:num_requests_running", "gauge", "Requests the model works on", real(engine.running));
  page.one("vllm:num_requests_waiting", "gauge", "Requests that wait for room", real(engine.waiting));
  page.one("vllm:kv_cache_usage_perc", "gauge", "Share of the blocks that running requests hold, 0 to 1",
           share(engine.held_blocks, engine.blocks));
  page.one("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up in the cache",
           real(engine.queried_tokens));
  page.one("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the cache", real(engine.hit_tokens));
  page.one("vllm:num_preemptions_total", "counter", "Times a running request made room", real(engine.preemptions));
  page.family("vllm:cache_config_info", "gauge", "The cache's shape");
  page.sample(1, fmt::format("block_size=\"{}\",num_gpu_blocks=\"{}\"", engine.block_tokens, engine.blocks));
  page.histogram("vllm:kv_block_lifetime_seconds", "From a block's publication to its eviction",
                 engine.block_lifetime);
  page.histogram("vllm:kv_block_idle_before_evict_seconds", "From a block's last use to its eviction",
                 engine.block_idle);
  page.histogram("vllm:kv_block_reuse_gap_seconds", "Between two uses of a block", engine.block_reuse_gap);
  page.one("kvasir:kv_cached_blocks", "gauge", "Blocks nobody holds that can be found again",
           real(engine.cached_blocks));
  page.one("kvasir:kv_evicted_blocks_total", "counter", "Cached blocks that made room", real(engine.evicted_blocks));
  page.family("kvasir:pauses_total", "counter", "Times a running request made room, by how it did");
  page.sample(engine.scheduler.recomputes, "how=\"recompute\"");
  page.sample(engine.scheduler.swaps, "how=\"swap\"");
  page.sample(engine.scheduler.waits, "how=\"wait\"");
  page.one("kvasir:requests_held_back_total", "counter", "Requests that waited for another's prompt, and shared it",
           real(engine.scheduler.waiting_for_prefix));
  page.one("kvasir:kv_pinned_blocks", "gauge", "Blocks kept by breakpoints and public texts",
           real(engine.pinned_blocks));
  page.one("kvasir:kv_moved_pages_total", "counter", "Pages of the cache that went to another group of layers",
           real(engine.moved_pages));
  page.one("kvasir:swapped_bytes", "gauge", "Blocks of paused requests in host memory", real(engine.swapped_bytes));
}

// vLLM's names; by drafter where vLLM has one alone.
void write_speculation(Page& page, const SpeculationCounts& counts) {
  if (counts.drafters.empty()) return;
  const auto sum = [&counts](std::int64_t DrafterCounts::*number) {
    std::int64_t out = 0;
    for (const DrafterCounts& one : counts.drafters) out += one.*number;
    return static_cast<double>(out);
  };
  page.one("vllm:spec_decode_num_drafts_total", "counter", "Drafts that were verified", sum(&DrafterCounts::drafts));
  page.one("vllm:spec_decode_num_draft_tokens_total", "counter", "Tokens of them", sum(&DrafterCounts::proposed));
  page.one("vllm:spec_decode_num_accepted_tokens_total", "counter", "Those that were right",
           sum(&DrafterCounts::accepted));
  page.family("vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter",
              "Tokens that were right, by their place in the draft");
  const auto& at = counts.accepted_at;
  const auto last = std::find_if(at.rbegin(), at.rend(), [](std::int64_t count) { return count > 0; });
  for (std::size_t i = 0; i < static_cast<std::size_t>(at.rend() - last); ++i) {
    page.sample(at[i], fmt::format("position=\"{}\"", i));
  }
  page.each({"drafter", "kvasir:spec_decode_draft_tokens_total", "counter", "Draft tokens verified, by who guessed"},
            counts.drafters, &DrafterCounts::proposed);
  page.each({"drafter", "kvasir:spec_decode_accepted_tokens_total", "counter", "Those that were right"},
            counts.drafters, &DrafterCounts::accepted);
  page.each({"drafter", "kvasir:spec_decode_branch_tokens_total", "counter",
             "Draft tokens verified beside a draft's main chain"},
            counts.drafters, &DrafterCounts::branch_proposed);
  page.each({"drafter", "kvasir:spec_decode_accepted_branch_tokens_total", "counter", "Those that were right"},
            counts.drafters, &DrafterCounts::branch_accepted);
  page.one("kvasir:spec_decode_drafting_seconds_total", "counter", "Time that guessing took",
           counts.drafting_seconds);
  page.one("kvasir:spec_decode_saved_seconds", "gauge",
           "Time saved beside an estimate of the same tokens without drafts", counts.saved_seconds);
}

// A number of the stats that a row has.
template <class Stats>
auto stat(std::int64_t Stats::*number) {
  return [number](const auto& row) { return row.stats.*number; };
}

void write_policies(Page& page, std::span<const PolicyNumbers> policies) {
  page.each(
      {"policy", "kvasir:policy_prefix_cache_queries_total", "counter", "Prompt tokens looked up under a KV policy"},
      policies, stat(&PolicyStats::queried_tokens));
  page.each({"policy", "kvasir:policy_prefix_cache_hits_total", "counter", "Prompt tokens found under it"}, policies,
            stat(&PolicyStats::hit_tokens));
  page.each(
      {"policy", "kvasir:policy_kv_evicted_blocks_total", "counter", "Cached blocks of a policy that made room"},
      policies, stat(&PolicyStats::evicted_blocks));
  page.each({"policy", "kvasir:policy_kv_evicted_rows_total", "counter",
             "Tokens that evict= took from running requests, once for each group of layers or heads"},
            policies, stat(&PolicyStats::evicted_rows));
  page.each({"policy", "kvasir:policy_kv_blocks", "gauge", "Blocks held or cached under a policy"}, policies,
            stat(&PolicyStats::blocks));
  page.each({"policy", "kvasir:policy_kv_bytes", "gauge", "Bytes of them"}, policies, stat(&PolicyStats::bytes));
}

void write_canary(Page& page, std::span<const CanaryNumbers> canary) {
  if (canary.empty()) return;
  page.each({"policy", "kvasir:canary_requests_total", "counter",
             "Requests of a lossy KV policy that were read again over a plain cache"},
            canary, &CanaryNumbers::requests);
  page.each({"policy", "kvasir:canary_tokens_total", "counter", "Tokens of theirs that were compared"}, canary,
            &CanaryNumbers::tokens);
  page.each({"policy", "kvasir:canary_kl", "gauge", "Mean divergence from a plain cache, in nats"}, canary,
            &CanaryNumbers::mean_kl);
  page.each(
      {"policy", "kvasir:canary_top1_agreement", "gauge", "Share of tokens where both find the same one likeliest"},
      canary, &CanaryNumbers::top_agreement);
  page.family("kvasir:canary_replaced", "gauge", "1: requests of a policy run under a safer one");
  for (const CanaryNumbers& one : canary) {
    page.sample(std::int64_t{one.replaced_by.empty() ? 0 : 1},
                fmt::format("policy=\"{}\",by=\"{}\"", escaped(one.name), escaped(one.replaced_by)));
  }
}

void write_tenants(Page& page, std::span<const TenantNumbers> tenants) {
  page.each({"tenant", "kvasir:tenant_prefix_cache_queries_total", "counter",
             "A tenant's prompt tokens looked up in the cache"},
            tenants, stat(&TenantStats::queried_tokens));
  page.each(
      {"tenant", "kvasir:tenant_prefix_cache_hits_total", "counter", "A tenant's prompt tokens found in the cache"},
      tenants, stat(&TenantStats::hit_tokens));
  page.each({"tenant", "kvasir:tenant_kv_evicted_blocks_total", "counter", "Cached blocks a tenant lost"}, tenants,
            stat(&TenantStats::evicted_blocks));
  page.each({"tenant", "kvasir:tenant_kv_blocks", "gauge", "Blocks a tenant has, held or cached"}, tenants,
            stat(&TenantStats::blocks));
  page.each({"tenant", "kvasir:tenant_kv_bytes", "gauge", "Bytes of them"}, tenants, stat(&TenantStats::bytes));
  page.each({"tenant", "kvasir:tenant_draft_text_bytes", "gauge", "Recent texts that a tenant's drafts come from"},
            tenants, &TenantNumbers::draft_text_bytes);
}

}  // namespace

void Metrics::first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  first_token_.observe(seconds);
}

void Metrics::next_token(double seconds) {
  const std::lock_guard lock(mutex_);
  next_token_.observe(seconds);
}

void Metrics::finished(const FinishedRequest& request) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += request.prompt_tokens;
  reused_tokens_ += request.reused_tokens;
  generated_tokens_ += request.generated_tokens;
  whole_.observe(request.seconds);
  ++by_reason_[std::string(request.reason)];
}

void Metrics::embedded(std::int64_t texts, std::int64_t tokens) {
  const std::lock_guard lock(mutex_);
  embedded_texts_ += texts;
  embedded_tokens_ += tokens;
}

void Metrics::replied(int status) {
  const std::lock_guard lock(mutex_);
  ++by_status_[status];
}

void Metrics::connections(std::int64_t open) {
  const std::lock_guard lock(mutex_);
  open_connections_ = open;
}

void Metrics::log_lines_dropped(std::int64_t total) {
  const std::lock_guard lock(mutex_);
  log_lines_dropped_ = total;
}

ServedNumbers Metrics::numbers() const {
  const std::lock_guard lock(mutex_);
  return {prompt_tokens_, reused_tokens_, generated_tokens_, first_token_, next_token_};
}

std::string Metrics::render(const EngineNumbers& engine) const {
  Page page(model_name_);
  write_engine(page, engine);
  write_speculation(page, engine.speculation);
  write_policies(page, engine.policies);
  write_canary(page, engine.canary);
  write_tenants(page, engine.tenants);
  const std::lock_guard lock(mutex_);
  page.one("vllm:prompt_tokens_total", "counter", "Tokens of prompts", static_cast<double>(prompt_tokens_));
  page.one("vllm:prompt_tokens_cached_total", "counter", "Tokens of prompts that were reused",
           static_cast<double>(reused_tokens_));
  page.one("vllm:generation_tokens_total", "counter", "Tokens answered", static_cast<double>(generated_tokens_));
  page.family("vllm:request_success_total", "counter", "Requests that ended, by the reason why");
  for (const auto& [reason, count] : by_reason_) page.sample(count, fmt::format("finished_reason=\"{}\"", reason));
  page.histogram("vllm:time_to_first_token_seconds", "From the request to its first token", first_token_);
  page.histogram("vllm:inter_token_latency_seconds", "Between two tokens of an answer", next_token_);
  page.histogram("vllm:e2e_request_latency_seconds", "From the request to its end", whole_);
  page.one("kvasir:embedded_texts_total", "counter", "Texts that became vectors",
           static_cast<double>(embedded_texts_));
  page.one("kvasir:embedded_tokens_total", "counter", "Tokens of theirs; none is cached",
           static_cast<double>(embedded_tokens_));
  page.one("kvasir:http_connections", "gauge", "Open connections", static_cast<double>(open_connections_));
  page.one("kvasir:log_lines_dropped_total", "counter", "Lines of the log that could not be written",
           static_cast<double>(log_lines_dropped_));
  page.family("kvasir:http_replies_total", "counter", "Replies, by status");
  for (const auto& [status, count] : by_status_) page.sample(count, fmt::format("status=\"{}\"", status));
  return page.take();
}

std::string Metrics::render_own(const TenantNumbers& own) const {
  Page page(model_name_);
  write_tenants(page, std::span(&own, 1));
  return page.take();
}

}  // namespace kvasir

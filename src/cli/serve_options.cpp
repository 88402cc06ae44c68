#include "cli/serve_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>

#include "base/bytes.h"
#include "base/error.h"
#include "base/private_file.h"
#include "cli/option_group.h"
#include "cli/policy_file.h"
#include "server/answer/formats/reasoning_formats.h"
#include "server/answer/formats/tool_formats.h"
#include "server/http/http_text.h"
#include "server/trace_file.h"

namespace kvasir {
namespace {

std::chrono::milliseconds checked_seconds(double seconds, const char* option) {
  if (seconds >= 0 && seconds <= 1e6) return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
  fail_usage(fmt::format("{} seconds make no sense", seconds), option, "use 0 to 1000000");
}

void check_access(ServeOptions& options, Log& log) {
  ServiceOptions& service = options.service;
  if (!options.keys.empty()) {
    service.keys = keys_of(options.keys, log);
    options.http.own_pages = true;
  } else if (is_loopback(options.http.host)) {
    options.http.allowed_hosts = options.allowed_hosts;
    options.http.own_pages = true;
  } else if (!options.insecure_public) {
    fail_usage(fmt::format("{} can be reached from other machines, and without keys anyone could use the model",
                           options.http.host),
               "--host", "give --keys FILE, use 127.0.0.1, or say --insecure-public if the network is yours");
  }
  if (!service.keys && !is_loopback(options.http.host)) service.block_texts = ServiceOptions::BlockTexts::kToNobody;
  if (options.public_metrics) service.metrics_for = ServiceOptions::MetricsFor::kAnyone;
  if (options.max_queued_per_tenant >= 0) service.max_queued_per_tenant = options.max_queued_per_tenant;
}

// "0.5%", or 0.005.
double share_of(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(rest, end);
  if (unit == "%") value /= 100;
  if (error != std::errc() || (!unit.empty() && unit != "%") || !(value >= 0 && value <= 1)) {
    fail_usage(fmt::format("'{}' is no share of requests", text), "--kv-canary", "use 0% to 100%, like 0.5%");
  }
  return value;
}

// The canary's own policies need room in the memory that the engine lays out.
void check_canary(ServeOptions& options) {
  CanaryConfig& canary = options.service.canary;
  if (!options.canary.empty()) canary.share = share_of(options.canary);
  if (!(canary.most_kl > 0)) fail_usage("no policy is that close", "--kv-canary-limit", "use more than 0, like 0.1");
  if (canary.share == 0) return;
  std::vector<KvPolicy> watched{parse_kv_policy(policy_argument(options.model.kv, "--kv"), "--kv")};
  for (const std::string& also : options.model.kv_allow) {
    if (also != "any") watched.push_back(parse_kv_policy(policy_argument(also, "--kv-allow"), "--kv-allow"));
  }
  for (const KvPolicy& policy : canary_policies(watched)) options.model.kv_room_for.push_back(to_text(policy));
}

// A tenant has half of the memory for bodies, and one of its requests must fit into that.
void check_bodies(ServeOptions& options) {
  HttpOptions& http = options.http;
  http.body_bytes = parse_bytes(options.max_body, "--max-body");
  http.bodies_bytes = parse_bytes(options.max_bodies_memory, "--max-bodies-memory");
  if (http.bodies_bytes / 2 < http.body_bytes) {
    fail_usage(fmt::format("{} for all bodies is less than two of {}", options.max_bodies_memory, options.max_body),
               "--max-bodies-memory", "use twice --max-body or more");
  }
}

void check_formats(const ServiceOptions& service) {
  if (!service.tool_format.empty() && find_tool_format(service.tool_format) == nullptr) {
    fail_usage(fmt::format("there is no '{}'", service.tool_format), "--tool-format",
               "use one of " + tool_format_names());
  }
  const std::string& reasoning = service.reasoning_format;
  if (!reasoning.empty() && reasoning != "none" && find_reasoning_format(reasoning) == nullptr) {
    fail_usage(fmt::format("there is no '{}'", reasoning), "--reasoning-format",
               "use none, or one of " + reasoning_format_names());
  }
}

void add_limit_options(CLI::App& command, ServeOptions& options) {
  const OptionGroup group(command, "Limits");
  HttpOptions& http = options.http;
  const auto add = [&](const char* name, auto& value, const char* help) {
    group.option_with_default(name, value, help);
  };
  add("--max-queued", options.service.max_queued, "Requests that may wait; more get 429");
  group
      .option("--max-queued-per-tenant", options.max_queued_per_tenant,
              "Requests of one tenant that may wait; more get 429. Default: with keys, half of all places")
      ->check(CLI::NonNegativeNumber);
  add("--max-connections", http.max_connections, "Connections at once");
  add("--max-body", options.max_body, "Largest request");
  add("--max-bodies-memory", options.max_bodies_memory,
      "Memory for all requests that are being read; more get 503. A tenant has half at most");
  add("--handler-threads", http.handler_threads,
      "Threads that parse and tokenize requests, in turns by tenant; a tenant never has the last");
  add("--handler-queue", http.handler_queue, "Requests of one tenant that may wait for these; more get 429");
  add("--request-timeout", options.request_timeout, "Seconds for an answer; 0: no limit");
  add("--idle-timeout", options.idle_timeout, "Seconds a connection may be idle");
  add("--drain-timeout", options.drain_timeout,
      "Seconds that answers have to finish after SIGTERM, before they are ended with an error; 0: no limit");
}

void add_access_options(CLI::App& command, ServeOptions& options) {
  const OptionGroup group(command, "Access");
  group.option("--keys", options.keys,
               "Keys file, made with kvasir keys: only its tenants may ask. Read again on SIGHUP");
  group.option("--public-prefix", options.public_texts,
               "File with a beginning of prompts that all tenants share: text, or .json with {\"messages\": […]}. "
               "May be given several times");
  group.flag("--public-metrics", options.public_metrics,
             "With keys: show /metrics, every tenant's numbers, to anyone");
  group.option("--allow-host", options.allowed_hosts,
               "Without keys: names in the Host header to answer to, besides local ones");
  group.option("--allow-origin,--cors", options.http.allowed_origins,
               "Origins of web pages that may use the server, besides local ones; *: all");
  group.flag("--insecure-public", options.insecure_public, "Listen on other than loopback addresses, without keys");
}

void add_log_options(CLI::App& command, ServeOptions& options) {
  const OptionGroup group(command, "Log");
  group.option_with_default("--log-format", options.log_format, "text (key=value) or json, one line for each event")
      ->check(CLI::IsMember({"text", "json"}));
  group.option("--log-file", options.log.file, "File to log to, opened again on SIGUSR1 and SIGHUP. Default: stderr");
  group.option("--trace", options.trace,
               "File for a line about each request, without its text, for kvasir plan --trace; opened again as the "
               "log is. A file that is there is continued");
  group.flag("-q,--quiet", options.quiet, "No line for each request");
}

void add_cache_options(CLI::App& command, ServeOptions& options) {
  const OptionGroup cache(command, "Cache");
  cache.option("--kv-allow", options.model.kv_allow,
               "A KV policy that requests may ask for besides --kv; any: all. May be given several times");
  cache.option("--kv-canary", options.canary,
               "Share of requests under lossy KV policies to read again in idle time over a plain cache, and "
               "compare; like 0.5%. Off by default");
  cache.option_with_default("--kv-canary-limit", options.service.canary.most_kl,
                            "Mean divergence in nats beyond which a policy is replaced by a safer one");
}

}  // namespace

KeysFile keys_of(const std::string& path, Log& log) {
  KeysFile keys = read_keys(path);
  if (others_can_read(path)) log.write({"warning", {{"file", path}, {"hint", "others can read it; chmod 600"}}});
  if (keys.entries.empty()) log.write({"warning", {{"file", path}, {"hint", "no keys: nobody can ask"}}});
  return keys;
}

Log::Options log_options(const ServeOptions& options) {
  Log::Options log = options.log;
  log.format = options.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  return log;
}

void check(ServeOptions& options, Log& log) {
  check_access(options, log);
  check_canary(options);
  check_bodies(options);
  check_formats(options.service);
  if (!options.trace.empty()) TraceFile::check(options.trace);
  HttpOptions& http = options.http;
  if (options.service.max_queued < 0)
    fail_usage(fmt::format("{} requests cannot queue", options.service.max_queued), "--max-queued", "use 0 or more");
  if (http.max_connections < 1) fail_usage("no connection could be made", "--max-connections", "use 1 or more");
  if (http.handler_threads < 1 || http.handler_threads > 1024)
    fail_usage(fmt::format("{} threads make no sense", http.handler_threads), "--handler-threads", "use 1 to 1024");
  if (http.handler_queue < 1) fail_usage("no request could wait", "--handler-queue", "use 1 or more");
  http.request_timeout = checked_seconds(options.request_timeout, "--request-timeout");
  http.idle_timeout = checked_seconds(options.idle_timeout, "--idle-timeout");
  http.drain_timeout = checked_seconds(options.drain_timeout, "--drain-timeout");
}

void add_serve_options(CLI::App& command, ServeOptions& options) {
  const OptionGroup group(command, "Server");
  HttpOptions& http = options.http;
  group.option_with_default("--host", http.host, "Address to listen on");
  group.option_with_default("--port", http.port, "Port to listen on; 0: any that is free");
  group.option("-a,--alias", options.alias, "The model's name in replies; default: its folder's");
  group.flag("--no-warmup", options.no_warmup,
             "Be ready at once; without it a few tokens are generated first, so that the first request is not slow");
  group.option("--tool-format", options.service.tool_format,
               "How the model writes calls of tools; default: as its chat template says. " + tool_format_names());
  group.option("--reasoning-format", options.service.reasoning_format,
               "How it writes what it thinks; none: all is text. Default: as its chat template says. " +
                   reasoning_format_names());
  add_limit_options(command, options);
  add_access_options(command, options);
  add_log_options(command, options);
  add_model_options(command, options.model);
  options.model.draft = "auto";
  add_draft_options(command, options.model);
  add_cache_options(command, options);
}

}  // namespace kvasir

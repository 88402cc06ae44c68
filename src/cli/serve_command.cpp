#include "cli/serve_command.h"

#include <fmt/format.h>

#include <sys/resource.h>
#include <charconv>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "base/bytes.h"
#include "base/error.h"
#include "base/private_file.h"
#include "cli/model_options.h"
#include "cli/policy_file.h"
#include "cli/progress.h"
#include "server/http_text.h"
#include "server/keys_file.h"
#include "server/log.h"
#include "server/serve.h"

namespace kvasir {
namespace {

struct ServeOptions {
  ModelOptions model;
  HttpOptions http;
  ServiceOptions service;
  std::string alias;
  std::string max_body = "32MiB";
  double request_timeout = 0;
  double idle_timeout = 75;
  std::string keys;
  std::int64_t max_queued_per_tenant = -1;  // -1: as many as all together
  std::vector<std::string> allowed_hosts;
  bool public_metrics = false;
  std::vector<std::filesystem::path> public_texts;
  bool insecure_public = false;
  std::string canary;  // a share, like "0.5%"
  bool quiet = false;
};

void say(const std::string& line) {
  fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
}

std::chrono::milliseconds checked_seconds(double seconds, const char* option) {
  if (seconds >= 0 && seconds <= 1e6) return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
  fail_usage(fmt::format("{} seconds make no sense", seconds), option, "use 0 to 1000000");
}

KeysFile keys_of(const std::string& path) {
  KeysFile keys = read_keys(path);
  if (others_can_read(path)) say(log_line("warning", {{"file", path}, {"hint", "others can read it; chmod 600"}}));
  if (keys.entries.empty()) say(log_line("warning", {{"file", path}, {"hint", "no keys: nobody can ask"}}));
  return keys;
}

// A file with a mistake in it changes nothing.
void reload(Service& service, const std::string& path) {
  try {
    const KeysFile keys = keys_of(path);
    service.set_keys(keys);
    say(log_line("reload", {{"file", path}, {"keys", std::to_string(keys.entries.size())}}));
  } catch (const std::exception& error) {
    say(log_line("reload_failed", {{"error", error.what()}, {"hint", "the old keys stay"}}));
  }
}

// Everything that can be wrong is said before a model is loaded.
void check_access(ServeOptions& options) {
  ServiceOptions& service = options.service;
  if (!options.keys.empty()) {
    service.keys = keys_of(options.keys);
  } else if (is_loopback(options.http.host)) {
    options.http.allowed_hosts = options.allowed_hosts;
  } else if (!options.insecure_public) {
    fail_usage(fmt::format("{} can be reached from other machines, and without keys anyone could use the model",
                           options.http.host),
               "--host", "give --keys FILE, use 127.0.0.1, or say --insecure-public if the network is yours");
  }
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

void check(ServeOptions& options) {
  check_access(options);
  check_canary(options);
  if (options.service.max_queued < 0)
    fail_usage(fmt::format("{} requests cannot queue", options.service.max_queued), "--max-queued", "use 0 or more");
  if (options.http.max_connections < 1)
    fail_usage("no connection could be made", "--max-connections", "use 1 or more");
  options.http.request_timeout = checked_seconds(options.request_timeout, "--request-timeout");
  options.http.idle_timeout = checked_seconds(options.idle_timeout, "--idle-timeout");
  options.http.body_bytes = parse_bytes(options.max_body, "--max-body");
}

// A connection is an open file, and the usual limit on these is below the connections we take.
void allow_connections(size_t connections) {
  constexpr rlim_t kOtherFiles = 64;
  const rlim_t wanted = connections + kOtherFiles;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted) return;
  files.rlim_cur = std::min(wanted, files.rlim_max);
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < wanted) {
    say(log_line("files", {{"hint", fmt::format("the system allows {} open files, fewer than --max-connections",
                                                files.rlim_max)}}));
  }
}

LoadedModel load(const ModelOptions& options, std::span<const std::filesystem::path> public_texts) {
  Progress progress("loading");
  LlmOptions llm = llm_options(options);
  llm.on_load = [&progress](int done, int all) {
    progress.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(all),
                  fmt::format("layer {} of {}", done, all));
  };
  return LoadedModel(llm, public_texts);
}

std::string model_name(const ServeOptions& options) {
  if (!options.alias.empty()) return options.alias;
  std::filesystem::path folder = std::filesystem::absolute(find_model(options.model.model)).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return (folder.extension() == ".gguf" ? folder.stem() : folder.filename()).string();
}

std::string url_of(const HttpServer& server, const std::string& host) {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", server.port());
}

void greet(const std::string& url, const ServeOptions& options, const std::string& device) {
  const std::string& model = options.service.model_name;
  say(fmt::format("kvasir: serving {} at {} (OpenAI: {}/v1, Anthropic and Ollama: {}) on {}", model, url, url, url,
                  device));
  say(
      fmt::format("try:    curl {}/v1/chat/completions {}-H 'content-type: application/json' "
                  "-d '{{\"messages\":[{{\"role\":\"user\",\"content\":\"Tell me a story about a fox.\"}}]}}'",
                  url, options.service.keys ? "-H \"authorization: bearer $KEY\" " : ""));
}

void serve(ServeOptions& options) {
  check(options);
  allow_connections(options.http.max_connections);
  options.service.model_name = model_name(options);
  LoadedModel model = load(options.model, options.public_texts);
  Service service(model, options.service);
  std::function<void(const std::string&)> log;
  if (!options.quiet) log = say;
  HttpServer server(options.http, callbacks_of(service, log));
  if (options.service.keys) server.reload_on_signal([&] { reload(service, options.keys); });
  server.drain_on_signals([] { say(log_line("drain", {{"hint", "finishing what runs; again to end now"}})); });
  greet(url_of(server, options.http.host), options, model.backend->description());
  server.run();
  say(log_line("end", {}));
}

void add_access_options(CLI::App& command, ServeOptions& options) {
  const std::string group = "Access";
  command
      .add_option("--keys", options.keys,
                  "Keys file, made with kvasir keys: only its tenants may ask. Read again on SIGHUP")
      ->group(group);
  command
      .add_option("--public-prefix", options.public_texts,
                  "File with a beginning of prompts that all tenants share: text, or .json with {\"messages\": […]}. "
                  "May be given several times")
      ->group(group);
  command
      .add_option("--max-queued-per-tenant", options.max_queued_per_tenant,
                  "Requests of one tenant that may wait; more get 429. Default: --max-queued")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command
      .add_flag("--public-metrics", options.public_metrics,
                "With keys: show /metrics, every tenant's numbers, to anyone")
      ->group(group);
  command
      .add_option("--allow-host", options.allowed_hosts,
                  "Without keys: names in the Host header to answer to, besides local ones")
      ->group(group);
  command
      .add_flag("--insecure-public", options.insecure_public, "Listen on other than loopback addresses, without keys")
      ->group(group);
}

}  // namespace

void add_serve_command(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "Serve the OpenAI, Anthropic and Ollama APIs");
  command->footer(
      "Logs go to stderr, one line each. SIGHUP reads the keys again. SIGTERM and Ctrl-C finish what runs, then end; "
      "a second one ends now.");
  const std::string group = "Server";
  HttpOptions& http = options->http;
  command->add_option("--host", http.host, "Address to listen on")->capture_default_str()->group(group);
  command->add_option("--port", http.port, "Port to listen on; 0: any that is free")
      ->capture_default_str()
      ->group(group);
  command->add_option("-a,--alias", options->alias, "The model's name in replies; default: its folder's")
      ->group(group);
  command->add_option("--max-queued", options->service.max_queued, "Requests that may wait; more get 429")
      ->capture_default_str()
      ->group(group);
  command->add_option("--max-connections", http.max_connections, "Connections at once")
      ->capture_default_str()
      ->group(group);
  command->add_option("--max-body", options->max_body, "Largest request")->capture_default_str()->group(group);
  command->add_option("--request-timeout", options->request_timeout, "Seconds for an answer; 0: no limit")
      ->capture_default_str()
      ->group(group);
  command->add_option("--idle-timeout", options->idle_timeout, "Seconds a connection may be idle")
      ->capture_default_str()
      ->group(group);
  command
      ->add_option("--allow-origin", http.allowed_origins,
                   "Web pages that may use the server, besides local ones; *: all")
      ->group(group);
  add_access_options(*command, *options);
  command->add_flag("-q,--quiet", options->quiet, "No line for each request")->group(group);
  add_model_options(*command, options->model);
  command
      ->add_option("--kv-allow", options->model.kv_allow,
                   "A KV policy that requests may ask for besides --kv; any: all. May be given several times")
      ->group("Cache");
  command
      ->add_option("--kv-canary", options->canary,
                   "Share of requests under lossy KV policies to read again in idle time over a plain cache, and "
                   "compare; like 0.5%. Off by default")
      ->group("Cache");
  command
      ->add_option("--kv-canary-limit", options->service.canary.most_kl,
                   "Mean divergence in nats beyond which a policy is replaced by a safer one")
      ->capture_default_str()
      ->group("Cache");
  command->callback([options] { serve(*options); });
}

}  // namespace kvasir

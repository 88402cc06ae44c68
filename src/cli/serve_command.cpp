#include "cli/serve_command.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "api/warm_up.h"
#include "backend/make_backend.h"
#include "base/error.h"
#include "base/memory_reserve.h"
#include "cli/progress.h"
#include "cli/serve_options.h"
#include "cli/serve_planner.h"
#include "cli/service_manager.h"
#include "server/memory_return.h"
#include "server/serve.h"
#include "server/trace_file.h"

namespace kvasir {
namespace {

// A file with a mistake in it changes nothing.
void reload(Service& service, const std::string& path, Log& log) {
  try {
    const KeysFile keys = keys_of(path, log);
    service.set_keys(keys);
    log.write({"reload", {{"file", path}, {"keys", static_cast<std::int64_t>(keys.entries.size())}}});
  } catch (const std::exception& error) {
    log.write({"reload_failed", {{"error", error.what()}, {"hint", "the old keys stay"}}});
  }
}

// A connection is an open file, and the usual limit on these is below the connections we take.
void allow_connections(size_t connections, Log& log) {
  constexpr rlim_t kOtherFiles = 64;
  const rlim_t wanted = connections + kOtherFiles;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted) return;
  files.rlim_cur = std::min(wanted, files.rlim_max);
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < wanted) {
    log.write(
        {"files",
         {{"hint", fmt::format("the system allows {} open files, fewer than --max-connections", files.rlim_max)}}});
  }
}

void load(std::optional<LoadedModel>& model, const ServeOptions& options) {
  Progress progress("loading");
  LlmOptions llm = llm_options(options.model);
  llm.on_load = [&progress](int done, int all) {
    progress.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(all),
                  fmt::format("layer {} of {}", done, all));
  };
  model.emplace(llm, options.public_texts);
}

// A GPU has kernels and graphs for each size of a batch.
std::vector<int> batches_to_warm_up(const std::string& device) {
  if (device_named(device).starts_with("cuda")) return {1, 2, 4, 8, 16, 32};
  return {1};
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

void greet(const std::string& url, const ServeOptions& options, const std::string& device, Log& log) {
  const std::string& model = options.service.model_name;
  log.say(fmt::format("kvasir: serving {} at {} (OpenAI: {}/v1, Anthropic and Ollama: {}) on {}", model, url, url,
                      url, device));
  log.say(
      fmt::format("try:    curl {}/v1/chat/completions {}-H 'content-type: application/json' "
                  "-d '{{\"messages\":[{{\"role\":\"user\",\"content\":\"Tell me a story about a fox.\"}}]}}'",
                  url, options.service.keys ? "-H \"authorization: bearer $KEY\" " : ""));
  log.write({"ready", {{"model", model}, {"url", url}, {"device", device}}});
}

// A server on a thread of its own, cut off when this ends before it does.
class RunningServer {
 public:
  explicit RunningServer(HttpServer& server) : server_(server), thread_([&server] { server.run(); }) {}
  ~RunningServer() {
    if (!thread_.joinable()) return;
    server_.stop();
    thread_.join();
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  void wait() { thread_.join(); }

 private:
  HttpServer& server_;
  std::thread thread_;
};

// The server's life, from its first signal to its last.
class Serving {
 public:
  Serving(ServeOptions& options, Log& log)
      : options_(options),
        log_(log),
        door_(options.quiet ? nullptr : &log),
        server_(options.http, callbacks()),
        manager_(notify_socket()) {
    server_.drain_on_signals();
    server_.on_signal(SIGUSR1, [this] { reopen_files(); });
    const bool files = !options.log.file.empty() || !options.trace.empty();
    if (options.service.keys || files) server_.on_signal(SIGHUP, [this] { hang_up(); });
  }

  // Listens first: who asks while the model is loaded is told so.
  void run() {
    RunningServer running(server_);
    try {
      load(model_, options_);
      if (!options_.no_warmup) warm_up(model_->engine, batches_to_warm_up(options_.model.device));
      if (!options_.trace.empty()) trace_.emplace(model_->engine, trace_options());
      service_.emplace(*model_, options_.service);
    } catch (...) {
      loading_ = false;
      throw;
    }
    door_.open(*service_);
    loading_ = false;
    manager_.tell("READY=1");
    greet(url_of(server_, options_.http.host), options_, model_->backend->description(), log_);
    running.wait();
  }

 private:
  static std::optional<std::string> notify_socket() {
    const char* socket = std::getenv("NOTIFY_SOCKET");
    return socket == nullptr ? std::nullopt : std::optional<std::string>(socket);
  }

  HttpServer::Callbacks callbacks() {
    HttpServer::Callbacks out = door_.callbacks();
    out.on_drain = [this, before = out.on_drain] {
      before();
      begin_to_end();
    };
    out.on_drain_timeout = [this](size_t cut) {
      log_.write({"drain_timeout", {{"answers_ended", static_cast<std::int64_t>(cut)}}});
    };
    return out;
  }

  // There is nothing to finish before the model is there, and no way to stop its loading.
  void begin_to_end() {
    manager_.tell("STOPPING=1");
    if (!loading_ && !service_) return;  // its error says all
    log_.write({"drain", {{"hint", "finishing what runs; again to end now"}}});
    if (!loading_) return;
    log_.flush();
    std::_Exit(0);
  }

  TraceFile::Options trace_options() const {
    const bool device = device_named(options_.model.device).starts_with("cuda");
    const std::string& model = options_.model.model;
    return {options_.trace, model.empty() ? options_.service.model_name : model, model_->backend->description(),
            device ? TraceConfig::Samples::kOnDevice : TraceConfig::Samples::kOnHost};
  }

  void reopen_files() {
    log_.reopen();
    if (!loading_ && trace_) trace_->reopen();
  }

  void hang_up() {
    reopen_files();
    if (!options_.service.keys || loading_) return;
    manager_.tell_reloading();
    reload(*service_, options_.keys, log_);
    manager_.tell("READY=1");
  }

  // In the order they depend on each other: the server ends before what it serves.
  ServeOptions& options_;
  Log& log_;
  FrontDoor door_;
  std::optional<LoadedModel> model_;
  std::optional<TraceFile> trace_;
  std::optional<Service> service_;
  std::atomic<bool> loading_ = true;  // the three above; until then, or until that failed
  HttpServer server_;
  ServiceManager manager_;
};

void serve(ServeOptions& options) {
  MemoryReturn::use_few_pools();
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the log that is gone is no reason to end, …
  std::signal(SIGXFSZ, SIG_IGN);  // … nor is a file of it that may not grow
  const MemoryReserve reserve(size_t{64} << 20);
  Log log(log_options(options));
  check(options, log);
  allow_connections(options.http.max_connections, log);
  options.service.model_name = model_name(options);
  options.service.planner = make_planner(options.model.model, options.service.model_name, options.model.kv);
  Serving(options, log).run();
  log.write({"end"});
}

}  // namespace

void add_serve_command(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command = app.add_subcommand("serve", "Serve the OpenAI, Anthropic and Ollama APIs");
  command->footer(
      "Logs go to stderr or --log-file, one line each. SIGHUP reads the keys again, SIGUSR1 opens the log file "
      "and the trace again. "
      "SIGTERM and Ctrl-C finish what runs, for --drain-timeout at most, then end; a second one ends now.");
  add_serve_options(*command, *options);
  command->callback([options] { serve(*options); });
}

}  // namespace kvasir

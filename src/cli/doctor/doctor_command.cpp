#include "cli/doctor/doctor_command.h"

#include <fmt/format.h>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <thread>

#include "base/bytes.h"
#include "base/error.h"
#include "base/private_file.h"
#include "cli/doctor/isolation_probe.h"
#include "cli/doctor/isolation_promises.h"
#include "cli/doctor/machine.h"
#include "cli/model_options.h"
#include "cli/option_group.h"
#include "cli/progress.h"
#include "model/config.h"
#include "server/serve.h"

namespace kvasir {
namespace {

struct DoctorOptions {
  ModelOptions model;
  bool isolation = false;
  int samples = 1000;
  int prompt_tokens = 256;
  std::string url;
  std::vector<std::string> keys;
  std::uint16_t port = 8080;
  std::filesystem::path keys_file;
};

void line(const char* topic, const std::string& text) { fmt::print("{:<10}{}\n", topic, text); }

void tell_machine(int threads) {
  for (const Finding& finding : examine_machine({}, threads)) {
    line(finding.topic.c_str(), finding.what);
    if (!finding.advice.empty()) line("", "-> " + finding.advice);
  }
}

bool tell_model(const std::string& name) {
  try {
    const std::filesystem::path folder = find_model(name);
    line("model",
         fmt::format("{}: {} parameters", folder.string(), format_count(parameter_count(load_config(folder)))));
    return true;
  } catch (const Error& error) {
    line("model", fmt::format("PROBLEM: {}", error.what()));
    return false;
  }
}

bool tell_keys(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) {
    line("keys", fmt::format("none at {}; a server is open, on loopback only", file.string()));
    return true;
  }
  try {
    const KeysFile keys = read_keys(file);
    line("keys", fmt::format("{} at {}{}", keys.entries.size(), file.string(),
                             others_can_read(file) ? "; PROBLEM: others can read it; chmod 600" : ""));
    return !others_can_read(file);
  } catch (const Error& error) {
    line("keys", fmt::format("PROBLEM: {}", error.what()));
    return false;
  }
}

void tell_port(std::uint16_t port) {
  try {
    const HttpServer server({.port = port}, {});
    line("port", fmt::format("{} is free", port));
  } catch (const Error&) {
    line("port", fmt::format("{} is in use; another server may be running: use serve --port", port));
  }
}

void check_up(const DoctorOptions& options) {
  tell_machine(options.model.threads);
  const bool model = tell_model(options.model.model);
  const bool keys = tell_keys(options.keys_file);
  tell_port(options.port);
  if (!model || !keys) fail_system("see what is marked PROBLEM");
}

// Text in a file that is there for a moment.
class PublicFile {
 public:
  PublicFile() : path_(std::filesystem::temp_directory_path() / fmt::format("kvasir-doctor-{}.txt", ::getpid())) {
    std::ofstream out(path_);
    for (int i = 0; i < 20; ++i) out << "All tenants of this server begin with this text, number " << i << ". ";
  }
  ~PublicFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  PublicFile(const PublicFile&) = delete;
  PublicFile& operator=(const PublicFile&) = delete;

  std::vector<std::filesystem::path> paths() const { return {path_}; }

 private:
  std::filesystem::path path_;
};

// A server with two tenants in this process, on a port that is free.
class OwnServer {
 public:
  explicit OwnServer(const ModelOptions& options)
      : model_(llm_options(options), PublicFile().paths()),
        service_(model_, {.keys = keys()}),
        server_({.port = 0}, door_.callbacks()) {
    door_.open(service_);
    thread_ = std::thread([this] { server_.run(); });
  }
  ~OwnServer() {
    server_.stop();
    thread_.join();
  }
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  HttpAddress address() const { return {.host = "127.0.0.1", .port = std::to_string(server_.port())}; }
  const std::string& victim() const { return victim_; }
  const std::string& attacker() const { return attacker_; }

  PromiseOptions promises() const {
    const std::int64_t cache_tokens = model_.engine.cache_blocks() * model_.engine.config().block_tokens;
    PromiseOptions out{address(), victim_, attacker_, {}, 0, cache_tokens};
    out.public_text.assign(model_.public_texts[0].begin(), model_.public_texts[0].end());
    out.guaranteed_tokens = static_cast<std::int64_t>(kGuaranteed * static_cast<double>(out.cache_tokens));
    return out;
  }

 private:
  static constexpr double kGuaranteed = 0.25;  // of the cache, to the victim

  KeysFile keys() const {
    return {random_secret(),
            {{.name = "victim", .hash = hash_of_key(victim_), .created = {}, .share = {kGuaranteed, 1, 1}},
             {.name = "attacker", .hash = hash_of_key(attacker_), .created = {}, .share = {}}}};
  }

  std::string victim_ = random_key();
  std::string attacker_ = random_key();
  LoadedModel model_;
  Service service_;
  FrontDoor door_{nullptr};
  HttpServer server_;
  std::thread thread_;
};

void examine(const IsolationOptions& options) {
  fmt::print("isolation: {} random prompts of {} tokens, half of them sent by another tenant before\n",
             options.samples, options.prompt_tokens);
  std::fflush(stdout);
  Progress progress("measuring");
  const IsolationSamples samples = probe_isolation(options, [&](int done) {
    progress.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(options.samples),
                  fmt::format("{} of {}", done, options.samples));
  });
  const IsolationVerdict verdict = judge(samples);
  fmt::print("{}", verdict.table);
  if (!verdict.hidden)
    fail_system("isolation fails: another tenant's cache can be seen", {},
                "if only by time, run it again: one run in 100 says so by chance");
  if (!verdict.own_faster)
    fail_system("nothing is proven: not even own hits can be told by time", {},
                "use longer prompts, and a machine with less to do");
  fmt::print("isolation holds\n");
}

void examine(const PromiseOptions& options) {
  bool all = true;
  for (const PromiseReport& report : try_promises(options)) {
    fmt::print("  {:<46}{:<5}{}\n", report.promise, report.kept ? "yes" : "NO", report.seen);
    all = all && report.kept;
  }
  if (!all) fail_system("a promise to tenants is not kept", {}, "see what is marked NO");
}

void doctor(const DoctorOptions& options) {
  if (!options.isolation) return check_up(options);
  if (options.samples < 20 || options.samples % 2 != 0)
    fail_usage(fmt::format("{} samples cannot be halved and compared", options.samples), "--samples",
               "use an even number from 20 on");
  IsolationOptions isolation;
  isolation.samples = options.samples;
  isolation.prompt_tokens = options.prompt_tokens;
  isolation.seed = (static_cast<std::uint64_t>(std::random_device{}()) << 32) | std::random_device{}();
  if (!options.url.empty()) {
    if (options.keys.size() != 2)
      fail_usage("two tenants are needed", "--key", "give the keys of two: --key KEY --key KEY");
    isolation.address = parse_url(options.url);
    isolation.victim_key = options.keys[0];
    isolation.attacker_key = options.keys[1];
    return examine(isolation);
  }
  const OwnServer server(options.model);
  isolation.address = server.address();
  isolation.victim_key = server.victim();
  isolation.attacker_key = server.attacker();
  examine(server.promises());
  examine(isolation);
}

}  // namespace

void add_doctor_command(CLI::App& app, const std::filesystem::path& standard_keys) {
  auto options = std::make_shared<DoctorOptions>();
  options->keys_file = standard_keys;
  CLI::App* command = app.add_subcommand("doctor", "Look at the machine; with --isolation, try to spy on a tenant");
  command->footer("Exit code 0: all is well; 1: something is not.");
  const OptionGroup group(*command, "Doctor");
  group.option_with_default("--port", options->port, "Port a server would use");
  group.flag("--isolation", options->isolation,
             "Measure whether one tenant can tell what another has cached; about two minutes");
  group.option_with_default("--samples", options->samples, "Prompts to measure with");
  group.option_with_default("--prompt-tokens", options->prompt_tokens, "Tokens of each")
      ->check(CLI::Range(16, 1 << 20));
  group.option("--url", options->url, "A running server, instead of one of our own");
  group.option("--key", options->keys, "With --url: the keys of two tenants");
  add_model_options(*command, options->model);
  command->callback([options] { doctor(*options); });
}

}  // namespace kvasir

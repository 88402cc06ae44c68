// What kvasir serve is told on its command line, and what of it makes no sense.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/model_options.h"
#include "server/access/keys_file.h"
#include "server/http/http_server.h"
#include "server/log_writer.h"
#include "server/service.h"

namespace CLI {
class App;
}

namespace kvasir {

struct ServeOptions {
  ModelOptions model;
  HttpOptions http;
  ServiceOptions service;
  Log::Options log;
  std::filesystem::path trace;  // empty: none
  std::string alias;
  std::string max_body = "16MiB";
  std::string max_bodies_memory = "256MiB";
  double request_timeout = 0;
  double idle_timeout = 75;
  double drain_timeout = 30;
  std::string keys;
  std::int64_t max_queued_per_tenant = -1;  // -1: as ServiceOptions has it
  std::vector<std::string> allowed_hosts;
  bool public_metrics = false;
  std::vector<std::filesystem::path> public_texts;
  bool insecure_public = false;
  std::string canary;  // a share, like "0.5%"
  std::string log_format = "text";
  bool no_warmup = false;
  bool quiet = false;
};

void add_serve_options(CLI::App& command, ServeOptions& options);

// How and where to log: known before anything else is, so that the rest can be logged.
Log::Options log_options(const ServeOptions& options);

// Everything that can be wrong is said before a model is loaded. Throws Error; `log` gets warnings.
void check(ServeOptions& options, Log& log);

// The keys file, with a warning where others can read it. Throws Error.
KeysFile keys_of(const std::string& path, Log& log);

}  // namespace kvasir

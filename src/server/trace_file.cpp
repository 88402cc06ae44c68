#include "server/trace_file.h"

#include <array>
#include <utility>

#include "server/log.h"
#include "server/random_id.h"
#include "trace/trace_lines.h"

namespace kvasir {
namespace {

LineFile::Options plain_options(const std::filesystem::path& file, size_t queue_bytes) {
  return {file, queue_bytes, "trace", "--trace", lost_line, {}, {}};
}

LineFile::Options lines_of(const Engine& engine, const TraceFile::Options& options) {
  TraceConfig config = trace_config(engine);
  config.id = random_hex(64);
  config.time = now_text();
  config.model = options.model;
  config.device = options.device;
  config.samples = options.samples;
  LineFile::Options out = plain_options(options.file, options.queue_bytes);
  out.heading = [line = trace_line(config)] { return line; };
  return out;
}

// Of this process alone: it is never written, and gone when it ends.
Key256 fresh_secret() {
  const std::string random = random_hex(256);
  const std::array<std::string_view, 1> parts{random};
  return keyed_hash({}, parts);
}

}  // namespace

void TraceFile::check(const std::filesystem::path& file) { LineFile::check(plain_options(file, 0)); }

TraceFile::TraceFile(Engine& engine, const Options& options)
    : lines_(lines_of(engine, options)),
      recorder_(engine, fresh_secret(), [this](std::string line) { lines_.write(std::move(line)); }) {}

}  // namespace kvasir

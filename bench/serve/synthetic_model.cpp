#include "serve/synthetic_model.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "model/known_models.h"
#include "serve/server_process.h"

namespace kvasir::bench {
namespace {

// The first 256 tokens are bytes, as byte-level tokenizers spell them; the others are words of their own numbers.
std::string spelling(std::int64_t token) {
  if (token >= 256) return fmt::format("t{}", token);
  const auto printable = [](std::int64_t byte) {
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
  };
  std::int64_t code = token;
  if (!printable(token)) {
    code = 256;
    for (std::int64_t byte = 0; byte < token; ++byte) code += printable(byte) ? 0 : 1;
  }
  if (code < 128) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 63))};
}

void write_tokenizer(const std::filesystem::path& folder) {
  nlohmann::ordered_json vocabulary;
  for (std::int64_t token = 0; token < vocabulary_of(folder); ++token) vocabulary[spelling(token)] = token;
  const nlohmann::ordered_json tokenizer{
      {"added_tokens", nlohmann::ordered_json::array()},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", nlohmann::ordered_json::array()}}}};
  std::ofstream(folder / "tokenizer.json") << tokenizer;
}

}  // namespace

std::int64_t vocabulary_of(const std::filesystem::path& model) { return resolve_config(model.string()).vocab; }

std::filesystem::path synthetic_model(const std::string& shape) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("kvasir-" + shape);
  // The tokenizer comes last: where it is, all is.
  if (std::filesystem::exists(folder / "tokenizer.json")) return folder;
  std::filesystem::remove_all(folder);
  run_program(kvasir_program(), {"synth", "--shape", shape, "--out", folder.string()});
  write_tokenizer(folder);
  return folder;
}

}  // namespace kvasir::bench

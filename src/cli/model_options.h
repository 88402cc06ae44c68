// The flags that every command that loads a model shares, under the names people know.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kvasir/kvasir.h"

namespace CLI {
class App;
}

namespace kvasir {

struct ModelOptions {
  std::string model;  // empty: the shipped model
  std::string device = "auto";
  std::string isa = "auto";
  std::string activations = "auto";
  std::string weights = "as-stored";
  int threads = 0;
  std::int64_t context = 0;
  std::string kv = "f16";
  std::vector<std::string> kv_allow;
  std::vector<std::string> kv_room_for;
  std::string kv_basis;  // empty: the model's own, if it has one
  std::string generation_config = "auto";
  std::string pooling;  // empty: as the model's files say
  std::string kv_memory;
  int block_size = 16;
  int max_batch_tokens = 0;  // 0: as suits the device
  std::string eviction = "lru";
  int state_budget = 4;
  std::string swap_memory;
  bool no_cache = false;
  std::string draft = "off";
  int draft_tokens = 32;
  int draft_tree = 1;
};

void add_compute_options(CLI::App& command, ModelOptions& options);  // the model, and what computes it
void add_model_options(CLI::App& command, ModelOptions& options);

void add_draft_options(CLI::App& command, ModelOptions& options);  // of commands that answer

// A folder that exists, else a shipped model by name ("tales"), else an Error that lists what there is.
std::filesystem::path find_model(const std::string& name, const char* option = "--model");

std::string draft_argument(const std::string& text);  // --draft's, with its model found

LlmOptions llm_options(const ModelOptions& options);
LlmOptions options_of_any_model(const ModelOptions& options);  // the same without looking for the model

}  // namespace kvasir

// The small shipped model with another chat template, and with other names for its special tokens.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "test_server.h"

namespace kvasir::testing {

class ChangedModel {
 public:
  using Renamed = std::vector<std::pair<std::string, std::string>>;

  explicit ChangedModel(const std::string& chat_template, const Renamed& tokens = {})
      : folder_(::testing::TempDir() + "kvasir_changed_model_" + std::to_string(::getpid()) + "_" +
                std::to_string(reinterpret_cast<std::uintptr_t>(this))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::copy(draft_options().model, folder_);
    std::ofstream(folder_ / "chat_template.jinja", std::ios::trunc) << chat_template;
    for (const auto& [from, to] : tokens) {
      for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) replace(file, from, to);
    }
  }
  ~ChangedModel() { std::filesystem::remove_all(folder_); }
  ChangedModel(const ChangedModel&) = delete;
  ChangedModel& operator=(const ChangedModel&) = delete;

  std::string folder() const { return folder_.string(); }

  // Answers no longer end with this token.
  void no_end(const std::string& id) {
    for (const char* file : {"config.json", "generation_config.json"})
      replace(file, "    0,\n    " + id + "\n", "    0\n");
  }

  LlmOptions options() const {
    LlmOptions out = draft_options();
    out.model = folder();
    return out;
  }

 private:
  void replace(const char* file, const std::string& from, const std::string& to) {
    std::stringstream text;
    text << std::ifstream(folder_ / file).rdbuf();
    std::string changed = text.str();
    for (size_t at = changed.find(from); at != std::string::npos; at = changed.find(from, at + to.size()))
      changed.replace(at, from.size(), to);
    std::ofstream(folder_ / file, std::ios::trunc) << changed;
  }

  std::filesystem::path folder_;
};

// Asks a service without a socket.
inline Reply ask_service(Service& service, const std::string& path, const Json& body) {
  Response response = service.handle({"POST", path, body.dump(), "id"});
  return finish(response);
}

}  // namespace kvasir::testing

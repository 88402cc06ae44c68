// Model folders with one file that is not as it should be, for the program to refuse.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "program.h"

namespace kvasir::testing {

// A copy of a JSON document in which the value at `pointer` is another, or gone where `value` is null.
struct JsonChange {
  const char* pointer;
  const char* value;  // JSON
  const char* says;   // what the refusal must say
};

class RefusedTest : public ProgramTest {
 protected:
  using Json = nlohmann::ordered_json;

  static constexpr const char* kModel = KVASIR_SOURCE_DIR "/models/tales-draft";

  // The shipped model with this in place of its file `name`.
  std::string model_with(const std::string& name, const std::string& content) const {
    const auto folder = folder_ / "model";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    for (const auto& entry : std::filesystem::directory_iterator(kModel)) {
      if (entry.path().filename() != name) {
        std::filesystem::create_symlink(entry.path(), folder / entry.path().filename());
      }
    }
    std::ofstream(folder / name, std::ios::binary) << content;
    return folder.string();
  }

  static Json shipped(const char* name) { return Json::parse(read(std::filesystem::path(kModel) / name)); }

  static Json changed(const Json& json, const JsonChange& change) {
    const Json::json_pointer at(change.pointer);
    Json out = json;
    if (change.value != nullptr) {
      out[at] = Json::parse(change.value);
    } else if (at.back().find_first_not_of("0123456789") == std::string::npos) {
      out[at.parent_pointer()].erase(static_cast<size_t>(std::stoul(at.back())));
    } else {
      out[at.parent_pointer()].erase(at.back());
    }
    return out;
  }

  // The program ends with 1 and one line that names the file: no signal, no other text.
  void expect_file_refused(const std::string& name, const std::string& content, const std::string& says) {
    SCOPED_TRACE(says);
    expect_refused("run -p x -n 1 -m " + model_with(name, content), 1, says);
    EXPECT_NE(read(folder_ / "err").find("model"), std::string::npos);
  }

  template <class Changes>
  void expect_changes_refused(const char* name, const Json& json, const Changes& changes) {
    for (const JsonChange& change : changes) {
      SCOPED_TRACE(change.pointer);
      expect_file_refused(name, changed(json, change).dump(), change.says);
    }
  }
};

}  // namespace kvasir::testing

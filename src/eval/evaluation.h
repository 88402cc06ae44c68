// Several KV policies judged on one text, window by window, side by side with the reference; and on needles. What is
// done so far is a value that can be kept in a file: a run that was killed goes on and gives the same numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "eval/needle.h"
#include "eval/progress_file.h"
#include "eval/reader.h"
#include "eval/windows.h"

namespace kvasir {

struct EvalPlan {
  TextWindows windows;
  std::vector<std::string> policies;            // see with_reference()
  std::optional<NeedlePlan> needles;            // nullopt: none are sought
  std::optional<std::filesystem::path> resume;  // where what is done is kept
};

class Evaluation {
 public:
  // Texts must be readable by the tokenizer's model. Backend, model and tokenizer outlive the evaluation. Throws
  // Error for a text that is no policy, and for a file to resume from that was made of something else.
  Evaluation(Backend& backend, Model& model, const Tokenizer& tokenizer, EvalPlan plan, const EngineConfig& base);

  // Does what is not done yet. `on_progress` hears how many windows and needles of how many are done, in all
  // policies, and of which policy the last was.
  using OnProgress = std::function<void(std::int64_t done, std::int64_t all, const std::string& what)>;
  void run(const OnProgress& on_progress);

  const EvalPlan& plan() const { return plan_; }
  const std::vector<PolicyProgress>& progress() const { return progress_; }  // by policy
  const std::vector<EngineConfig>& configs() const { return configs_; }      // by policy

 private:
  void read_window(std::int64_t window);
  void seek_needles(size_t policy, const OnProgress& on_progress);
  Reader& reader(size_t policy);
  std::string identity() const;
  void load();
  void save();
  void tell(const OnProgress& on_progress, const std::string& what) const;

  Backend& backend_;
  Model& model_;
  const Tokenizer& tokenizer_;
  EvalPlan plan_;
  std::vector<EngineConfig> configs_;
  std::vector<PolicyProgress> progress_;
  KeptProgress kept_;                             // as it lies in the file: other policies' as well
  std::vector<std::unique_ptr<Reader>> readers_;  // by policy, from when one is needed
};

}  // namespace kvasir

// What policies cost on one text, each measured once however often it is asked for.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "eval/evaluation.h"

namespace kvasir {

// Hears how many measurements of how many are done in this part of the work.
using OnMeasured = std::function<void(std::int64_t done, std::int64_t all, const std::string& what)>;

class PolicyEvaluator {
 public:
  // All outlive the evaluator. `resume`: a file that keeps what is measured.
  PolicyEvaluator(Backend& backend, Model& model, const Tokenizer& tokenizer, TextWindows windows,
                  std::optional<std::filesystem::path> resume);

  // Measures those not known yet, a few side by side. Texts are canonical.
  void measure(const std::vector<std::string>& policies, const OnMeasured& on_measured);

  const QualitySums& of(const std::string& policy) const;  // REQUIRES: measured, or the reference
  const TextWindows& windows() const { return windows_; }

 private:
  static constexpr size_t kSideBySide = 12;  // each has a cache of its own

  Backend& backend_;
  Model& model_;
  const Tokenizer& tokenizer_;
  TextWindows windows_;
  std::optional<std::filesystem::path> resume_;
  std::map<std::string, QualitySums> known_;
};

}  // namespace kvasir

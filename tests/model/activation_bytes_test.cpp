// What a plan says of a step's memory is what a model asks its backend for, whatever the family.
#include <gtest/gtest.h>

#include <filesystem>

#include "backend/forwarding_backend.h"
#include "backend/make_backend.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

class CountedBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Buffer allocate(size_t bytes) override {
    allocated_ += bytes;
    return ForwardingBackend::allocate(bytes);
  }
  std::uint64_t allocated() const { return allocated_; }

 private:
  std::uint64_t allocated_ = 0;
};

// Beside its matrices, which a backend loads by itself.
std::uint64_t allocated_by(const std::string& golden, int max_rows) {
  CountedBackend backend(make_backend({"cpu", 1, "auto"}));
  load_golden(golden, backend, max_rows);
  return backend.allocated();
}

// What is left, norms and biases, is the same for any steps, and small beside the angles that a spec with ropes keeps.
// An encoder-decoder makes the rows of a source when the first one comes: those are in the plan from the start.
TEST(ActivationBytes, AreWhatEveryFamilyAllocates) {
  int families = 0;
  for (const auto& entry : std::filesystem::directory_iterator(golden_dir(""))) {
    if (!std::filesystem::exists(entry.path() / "golden.safetensors") || !family_runs(entry.path())) continue;
    const std::string name = entry.path().filename().string();
    const ModelSpec spec = for_context(load_config(entry.path()), 0);
    const auto rest = [&](int max_rows) { return allocated_by(name, max_rows) - activation_bytes(spec, max_rows); };
    const std::uint64_t weights = load_golden(name, *make_backend({"cpu", 1, "auto"}), 8)->weight_bytes();
    if (spec.reads_source()) {
      EXPECT_LT(allocated_by(name, 8), activation_bytes(spec, 8) + 2 * weights) << name;
    } else {
      EXPECT_EQ(rest(8), rest(40)) << name;
      EXPECT_LT(rest(8), 2 * weights) << name;
    }
    ++families;
  }
  EXPECT_GT(families, 60);
}

}  // namespace
}  // namespace kvasir::testing

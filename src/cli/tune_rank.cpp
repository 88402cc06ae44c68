#include "cli/tune_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "api/gguf_tokenizer.h"
#include "backend/make_backend.h"
#include "base/bytes.h"
#include "base/error.h"
#include "cli/eval_text.h"
#include "cli/progress.h"
#include "tune/rank_tuner.h"

namespace kvasir {
namespace {

constexpr std::int64_t kLongestRankWindow = 2048;

TextWindows calibration_windows(const RankTuning& tuning, const Tokenizer& tokenizer, const ModelSpec& config) {
  const std::int64_t context =
      tuning.context > 0 ? tuning.context : std::min<std::int64_t>(config.context, kLongestRankWindow);
  if (context > config.context) {
    fail_usage(fmt::format("windows of {} tokens, and the model was trained for {}", context, config.context),
               "--ctx", fmt::format("use {} or less", config.context));
  }
  std::vector<TokenId> text = tokens_of_file(tuning.text, tokenizer);
  if (tuning.tokens > 0 && tuning.tokens < std::ssize(text)) text.resize(static_cast<size_t>(tuning.tokens));
  return {std::move(text), {context, 0, opening_of(tokenizer)}};
}

// Whole or not at all.
void write_basis(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
  std::filesystem::path part = path;
  part += ".part";
  std::ofstream file(part, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(part, path, failed);
  if (!file || failed) fail_input("the file cannot be written", path.string(), "give another one with -o");
}

}  // namespace

void tune_rank(const RankTuning& tuning) {
  const std::filesystem::path folder = find_model(tuning.model.model);
  const std::filesystem::path out = tuning.out.empty() ? folder / kKvBasisFile : std::filesystem::path(tuning.out);
  if (tuning.out.empty() && !std::filesystem::is_directory(folder)) {
    fail_usage("a model that is one file has no folder of its own", "-o", "say where the basis is to be written");
  }
  const ModelSpec config = load_config(folder);
  const Tokenizer tokenizer = load_tokenizer(folder);
  const TextWindows windows = calibration_windows(tuning, tokenizer, config);
  RankRecorder recorder(backend_of(tuning.model), config);
  const auto model = load_model(folder, recorder,
                                {batch_tokens(tuning.model.max_batch_tokens, tuning.model.device),
                                 {},
                                 {},
                                 parse_weight_quantization(tuning.model.weights)});
  KvBasis basis;
  {
    Progress progress("reading");
    basis = tune_rank(recorder, *model, windows, [&](std::int64_t done) {
      progress.show(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(windows.count()));
    });
  }
  const std::vector<std::byte> bytes = kv_basis_bytes(basis, model->stored_fingerprint());
  write_basis(out, bytes);
  fmt::print(stderr, "{}: {} from {} tokens\n", out.string(), format_bytes(bytes.size()), windows.text().size());
}

}  // namespace kvasir

#include "engine/embedder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace kvasir {
namespace {

// Of a text that a decoder reads in several steps: all of its keys and values lie in the scratch memory, in float32.
constexpr std::int64_t kLongestInParts = 32768;

std::int64_t longest_of(const Model& model, std::int64_t context) {
  const std::int64_t most = model.config().encodes() ? model.max_rows() : kLongestInParts;
  const std::int64_t trained = model.config().context;
  return std::min({most, trained, context > 0 ? context : trained});
}

// Which of a text's rows pooling reads, of those from `first` on of `all`.
void add_wanted(VectorSpec::Pooling pooling, std::int64_t first, std::int64_t all, Batch& batch, int first_row) {
  for (int row = first_row; row < batch.rows(); ++row) {
    const std::int64_t position = first + row - first_row;
    const bool wanted =
        pooling == VectorSpec::Pooling::kMean || position == (pooling == VectorSpec::Pooling::kCls ? 0 : all - 1);
    if (wanted) batch.logit_rows.push_back(row);
  }
}

}  // namespace

Embedder::Embedder(Backend& backend, Model& model, VectorHead head, std::int64_t context)
    : backend_(backend), model_(model), head_(std::move(head)), longest_(longest_of(model, context)) {}

void Embedder::check(Text text) const {
  if (model_.config().recurs()) {
    fail_usage(fmt::format("{} has recurrent layers, and these make no vectors yet", model_.config().family_name()),
               "input", "take a model without them");
  }
  if (model_.config().reads_source()) {
    fail_usage(fmt::format("{} answers to a source, and makes no vectors yet", model_.config().family_name()),
               "input", "take a decoder or an encoder");
  }
  if (text.empty()) fail_input("the text has no tokens", "input", "give some text");
  if (std::ssize(text) > longest_) {
    throw Error(
        Error::Kind::kCapacity,
        {fmt::format("a text has {} tokens, and at most {} are read", text.size(), longest_), "input", "shorten it"});
  }
  for (const TokenId token : text) {
    if (token < 0 || token >= model_.config().vocab)
      fail_input(fmt::format("token {} is not in the vocabulary of {}", token, model_.config().vocab), "input");
  }
}

size_t Embedder::fit(std::span<const Text> texts) const { return texts_that_fit(texts, model_.max_rows()); }

// The wanted rows: [rows][hidden].
std::vector<float> Embedder::step(const Batch& batch, ScratchRows& scratch) {
  const Matrix rows = model_.forward(batch, scratch.storage());
  std::vector<float> out(static_cast<size_t>(rows.rows) * static_cast<size_t>(rows.cols));
  if (!out.empty())
    backend_.download(std::as_writable_bytes(std::span(out)), reinterpret_cast<const std::byte*>(rows.data));
  return out;
}

// A text of more tokens than a step has rows. Its keys and values are kept until it ends, and given back then.
std::vector<float> Embedder::run_in_parts(std::span<const TokenId> text) {
  CHECK(!model_.config().encodes());
  const std::int64_t length = std::ssize(text);
  ScratchRows scratch(backend_, model_.config(), length, KvStorage::Layers::kApart);
  std::vector<float> rows;
  for (std::int64_t first = 0, end = 0; first < length; first = end) {
    end = std::min<std::int64_t>(first + model_.max_rows(), length);
    Batch batch;
    batch.output = Batch::Output::kHidden;
    scratch.add(text, first, end, 0, batch);
    add_wanted(head_.spec().pooling, first, length, batch, 0);
    const std::vector<float> part = step(batch, scratch);
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return head_.vector_of(rows);
}

std::vector<std::vector<float>> Embedder::run(std::span<const Text> texts) {
  if (texts.size() == 1 && std::ssize(texts.front()) > model_.max_rows()) return {run_in_parts(texts.front())};
  if (!scratch_) {
    scratch_ =
        std::make_unique<ScratchRows>(backend_, model_.config(), model_.max_rows(), KvStorage::Layers::kInTurn);
  }
  Batch batch;
  batch.output = Batch::Output::kHidden;
  std::int64_t block = 0;
  std::vector<size_t> wanted;  // rows of each text
  for (const Text text : texts) {
    const int first_row = batch.rows();
    const size_t before = batch.logit_rows.size();
    scratch_->add(text, 0, std::ssize(text), block, batch);
    add_wanted(head_.spec().pooling, 0, std::ssize(text), batch, first_row);
    wanted.push_back(batch.logit_rows.size() - before);
    block += blocks_for(std::ssize(text), ScratchRows::kBlockTokens);
  }
  const std::vector<float> rows = step(batch, *scratch_);
  std::vector<std::vector<float>> out;
  size_t first = 0;
  for (const size_t count : wanted) {
    const size_t numbers = count * static_cast<size_t>(model_.config().hidden);
    out.push_back(head_.vector_of(std::span(rows).subspan(first, numbers)));
    first += numbers;
  }
  return out;
}

}  // namespace kvasir

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

// Rows first … end of a text whose blocks begin at `block`, and the kinds of their tokens.
void add_rows(const Embedder::Text& text, std::int64_t first, std::int64_t end, std::int64_t block,
              const ScratchRows& scratch, Batch& batch) {
  scratch.add(text.tokens, first, end, block, batch);
  for (std::int64_t i = first; i < end; ++i) {
    batch.token_types.push_back(text.types.empty() ? 0 : text.types[static_cast<size_t>(i)]);
  }
}

}  // namespace

Embedder::Embedder(Backend& backend, Model& model, std::int64_t context)
    : backend_(backend), model_(model), longest_(longest_of(model, context)) {}

void Embedder::check(const Text& text) const {
  if (model_.config().recurs()) {
    fail_usage(fmt::format("{} has recurrent layers, and these make no vectors and no scores yet",
                           model_.config().family_name()),
               "input", "take a model without them");
  }
  if (model_.config().reads_source()) {
    fail_usage(fmt::format("{} answers to a source, and makes no vectors yet", model_.config().family_name()),
               "input", "take a decoder or an encoder");
  }
  if (text.tokens.empty()) fail_input("the text has no tokens", "input", "give some text");
  if (std::ssize(text.tokens) > longest_) {
    throw Error(Error::Kind::kCapacity,
                {fmt::format("a text has {} tokens, and at most {} are read", text.tokens.size(), longest_), "input",
                 "shorten it"});
  }
  for (const TokenId token : text.tokens) {
    if (token < 0 || token >= model_.config().vocab)
      fail_input(fmt::format("token {} is not in the vocabulary of {}", token, model_.config().vocab), "input");
  }
  const int types = std::max(model_.config().token_types, 1);
  for (const TokenId type : text.types) {
    if (type < 0 || (type >= types && model_.config().token_types > 0))
      fail_input(fmt::format("a token has the type {}, and the model knows {}", type, types), "input");
  }
}

size_t Embedder::fit(std::span<const Text> texts) const {
  std::vector<std::span<const TokenId>> tokens;
  for (const Text& text : texts) tokens.push_back(text.tokens);
  return texts_that_fit(tokens, model_.max_rows());
}

// The wanted rows: [rows][hidden].
std::vector<float> Embedder::step(const Batch& batch, ScratchRows& scratch) {
  const Matrix rows = model_.forward(batch, scratch.storage());
  std::vector<float> out(static_cast<size_t>(rows.rows) * static_cast<size_t>(rows.cols));
  if (!out.empty())
    backend_.download(std::as_writable_bytes(std::span(out)), reinterpret_cast<const std::byte*>(rows.data));
  return out;
}

// A text of more tokens than a step has rows. Its keys and values are kept until it ends, and given back then.
std::vector<float> Embedder::run_in_parts(const Text& text) {
  CHECK(!model_.config().encodes());
  const std::int64_t length = std::ssize(text.tokens);
  ScratchRows scratch(backend_, model_.config(), length, KvStorage::Layers::kApart);
  std::vector<float> rows;
  for (std::int64_t first = 0, end = 0; first < length; first = end) {
    end = std::min<std::int64_t>(first + model_.max_rows(), length);
    Batch batch;
    batch.output = Batch::Output::kHidden;
    add_rows(text, first, end, 0, scratch, batch);
    add_wanted(text.head->pooling(), first, length, batch, 0);
    const std::vector<float> part = step(batch, scratch);
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return text.head->made_of(rows);
}

std::vector<std::vector<float>> Embedder::run(std::span<const Text> texts) {
  if (texts.size() == 1 && std::ssize(texts.front().tokens) > model_.max_rows()) return {run_in_parts(texts.front())};
  if (!scratch_) {
    scratch_ =
        std::make_unique<ScratchRows>(backend_, model_.config(), model_.max_rows(), KvStorage::Layers::kInTurn);
  }
  Batch batch;
  batch.output = Batch::Output::kHidden;
  std::int64_t block = 0;
  std::vector<size_t> wanted;  // rows of each text
  for (const Text& text : texts) {
    const int first_row = batch.rows();
    const size_t before = batch.logit_rows.size();
    const std::int64_t length = std::ssize(text.tokens);
    add_rows(text, 0, length, block, *scratch_, batch);
    add_wanted(text.head->pooling(), 0, length, batch, first_row);
    wanted.push_back(batch.logit_rows.size() - before);
    block += blocks_for(length, ScratchRows::kBlockTokens);
  }
  const std::vector<float> rows = step(batch, *scratch_);
  std::vector<std::vector<float>> out;
  size_t first = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t numbers = wanted[i] * static_cast<size_t>(model_.config().hidden);
    out.push_back(texts[i].head->made_of(std::span(rows).subspan(first, numbers)));
    first += numbers;
  }
  return out;
}

}  // namespace kvasir

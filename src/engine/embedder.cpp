#include "engine/embedder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace kvasir {
namespace {

constexpr int kBlockTokens = kDefaultBlockTokens;
// Of a text that a decoder reads in several steps: all of its keys and values lie in the scratch memory, in float32.
constexpr std::int64_t kLongestInParts = 32768;

std::int64_t longest_of(const Model& model, std::int64_t context) {
  const std::int64_t most = model.config().encodes() ? model.max_rows() : kLongestInParts;
  const std::int64_t trained = model.config().context;
  return std::min({most, trained, context > 0 ? context : trained});
}

std::int64_t blocks_of(size_t tokens) { return blocks_for(static_cast<std::int64_t>(tokens), kBlockTokens); }

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

// A memory of its own for each group, and blocks in order.
struct Embedder::Scratch {
  Scratch(Backend& backend, KvStorage::Pages pages) : storage(backend, pages, kBlockTokens) {}

  // Rows first … end of a text whose blocks begin at `block`, behind those that the batch has.
  void add(const Text& text, std::int64_t first, std::int64_t end, std::int64_t block, Batch& batch) const {
    const int first_row = batch.rows();
    for (std::int64_t i = first; i < end; ++i) {
      batch.tokens.push_back(text.tokens[static_cast<size_t>(i)]);
      batch.token_types.push_back(text.types.empty() ? 0 : text.types[static_cast<size_t>(i)]);
      batch.positions.push_back(i);
    }
    batch.sequences.resize(tables.size());
    for (size_t group = 0; group < tables.size(); ++group) {
      SequenceView view{tables[group].data() + block, first, first_row, static_cast<int>(end - first)};
      view.keys = end;
      batch.sequences[group].push_back(view);
    }
  }

  KvStorage storage;
  std::vector<std::vector<BlockId>> tables;  // by group
};

Embedder::Embedder(Backend& backend, Model& model, std::int64_t context)
    : backend_(backend),
      model_(model),
      longest_(longest_of(model, context)),
      groups_(scratch_groups(model.config())) {}

Embedder::~Embedder() = default;

void Embedder::check(const Text& text) const {
  if (model_.config().recurs()) {
    fail_usage(fmt::format("{} has recurrent layers, and these make no vectors and no scores yet",
                           model_.config().family_name()),
               "input", "take a model without them");
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
  const std::int64_t most = blocks_of(static_cast<size_t>(model_.max_rows()));
  std::int64_t rows = 0;
  std::int64_t blocks = 0;
  size_t count = 0;
  for (; count < texts.size(); ++count) {
    rows += std::ssize(texts[count].tokens);
    blocks += blocks_of(texts[count].tokens.size());
    if (count > 0 && (rows > model_.max_rows() || blocks > most)) break;
  }
  return count;
}

// A layer that reads another's keys needs them to be still there.
std::unique_ptr<Embedder::Scratch> Embedder::make_scratch(std::int64_t tokens, KvStorage::Layers layers) const {
  const std::int64_t blocks = blocks_for(tokens, kBlockTokens);
  const auto own = [](const LayerSpec& layer) { return layer.attention.owns_kv(); };
  if (!std::ranges::all_of(model_.config().layers, own)) layers = KvStorage::Layers::kApart;
  std::int64_t page_bytes = 0;
  std::vector<std::int64_t> block_bytes;
  for (const KvGroup& group : groups_) {
    KvLayout layout = make_layout(group, kBlockTokens);
    if (layers == KvStorage::Layers::kInTurn) layout.layers = 1;
    block_bytes.push_back(layout.block_bytes());
    page_bytes = std::max(page_bytes, layout.block_bytes());
  }
  auto out = std::make_unique<Scratch>(backend_, KvStorage::Pages{blocks * std::ssize(groups_), page_bytes});
  for (size_t group = 0; group < groups_.size(); ++group) {
    out->storage.set_group(group, groups_[group], layers);
    const std::int64_t per_page = page_bytes / block_bytes[group];
    std::vector<BlockId>& table = out->tables.emplace_back();
    for (std::int64_t block = 0; block < blocks; ++block) {
      table.push_back(static_cast<BlockId>((static_cast<std::int64_t>(group) * blocks + block) * per_page));
    }
  }
  return out;
}

// The wanted rows: [rows][hidden].
std::vector<float> Embedder::step(const Batch& batch, Scratch& scratch) {
  const Matrix rows = model_.forward(batch, scratch.storage);
  std::vector<float> out(static_cast<size_t>(rows.rows) * static_cast<size_t>(rows.cols));
  if (!out.empty())
    backend_.download(std::as_writable_bytes(std::span(out)), reinterpret_cast<const std::byte*>(rows.data));
  return out;
}

// A text of more tokens than a step has rows. Its keys and values are kept until it ends, and given back then.
std::vector<float> Embedder::run_in_parts(const Text& text) {
  CHECK(!model_.config().encodes());
  const std::int64_t length = std::ssize(text.tokens);
  const std::unique_ptr<Scratch> scratch = make_scratch(length, KvStorage::Layers::kApart);
  std::vector<float> rows;
  for (std::int64_t first = 0, end = 0; first < length; first = end) {
    end = std::min<std::int64_t>(first + model_.max_rows(), length);
    Batch batch;
    batch.output = Batch::Output::kHidden;
    scratch->add(text, first, end, 0, batch);
    add_wanted(text.head->pooling(), first, length, batch, 0);
    const std::vector<float> part = step(batch, *scratch);
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return text.head->made_of(rows);
}

std::vector<std::vector<float>> Embedder::run(std::span<const Text> texts) {
  if (texts.size() == 1 && std::ssize(texts.front().tokens) > model_.max_rows()) return {run_in_parts(texts.front())};
  if (!scratch_) scratch_ = make_scratch(model_.max_rows(), KvStorage::Layers::kInTurn);
  Batch batch;
  batch.output = Batch::Output::kHidden;
  std::int64_t block = 0;
  std::vector<size_t> wanted;  // rows of each text
  for (const Text& text : texts) {
    const int first_row = batch.rows();
    const size_t before = batch.logit_rows.size();
    const std::int64_t length = std::ssize(text.tokens);
    scratch_->add(text, 0, length, block, batch);
    add_wanted(text.head->pooling(), 0, length, batch, first_row);
    wanted.push_back(batch.logit_rows.size() - before);
    block += blocks_of(text.tokens.size());
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

#include "text/sentencepiece_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "text/pieces.h"
#include "text/protobuf.h"
#include "text/score_merges.h"

namespace kvasir {
namespace {

// The values of a piece's type.
enum class PieceType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct ModelPiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

// What of the message is used; values are those of fields that are missing.
struct Model {
  enum class Type : std::uint8_t { kUnigram = 1, kBpe = 2 };

  std::vector<ModelPiece> pieces;
  std::uint64_t type = 1;
  bool space_at_end = false;  // treat_whitespace_as_suffix
  std::int64_t bos_id = 1, eos_id = 2;
  std::string charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

class ModelReader {
 public:
  ModelReader(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  Model read() {
    if (bytes_.size() > kMaxJsonBytes) fail("the file is too long", "use a model of SentencePiece");
    each(bytes_, [&](const ProtobufField& field) {
      if (field.number == 1) read_piece(field.text(where_));
      if (field.number == 2) read_trainer(field.text(where_));
      if (field.number == 3) read_normalizer(field.text(where_));
    });
    if (model_.pieces.empty()) fail("the file has no pieces: it is no model of SentencePiece", "download it again");
    return std::move(model_);
  }

 private:
  [[noreturn]] void fail(std::string what, std::string fix) const {
    fail_input(std::move(what), where_, std::move(fix));
  }

  template <class Visit>
  void each(std::string_view message, Visit visit) const {
    ProtobufReader reader(message, where_);
    while (const auto field = reader.next()) visit(*field);
  }

  void read_piece(std::string_view message) {
    if (model_.pieces.size() >= static_cast<size_t>(kMaxVocab)) fail("the model has too many pieces", "use another");
    ModelPiece piece;
    each(message, [&](const ProtobufField& field) {
      if (field.number == 1) piece.text = std::string(field.text(where_));
      if (field.number == 2) piece.score = field.number32(where_);
      if (field.number == 3) piece.type = static_cast<PieceType>(std::min<std::uint64_t>(field.integer(where_), 255));
    });
    model_.pieces.push_back(std::move(piece));
  }

  void read_trainer(std::string_view message) {
    each(message, [&](const ProtobufField& field) {
      if (field.number == 3) model_.type = field.integer(where_);
      if (field.number == 24) model_.space_at_end = field.flag(where_);
      if (field.number == 41) model_.bos_id = static_cast<std::int64_t>(field.integer(where_));
      if (field.number == 42) model_.eos_id = static_cast<std::int64_t>(field.integer(where_));
    });
  }

  void read_normalizer(std::string_view message) {
    each(message, [&](const ProtobufField& field) {
      if (field.number == 2) model_.charsmap = std::string(field.text(where_));
      if (field.number == 3) model_.add_dummy_prefix = field.flag(where_);
      if (field.number == 4) model_.remove_extra_whitespaces = field.flag(where_);
      if (field.number == 5) model_.escape_whitespaces = field.flag(where_);
    });
  }

  std::string_view bytes_;
  const std::string& where_;
  Model model_;
};

// A model on its way to a TokenizerSpec.
class Converter {
 public:
  Converter(Model model, const TokenizerConfig& config, const std::string& where)
      : model_(std::move(model)), config_(config), where_(where) {}

  SentencePieceTokenizer run() {
    if (model_.type != 1 && model_.type != 2) {
      fail(fmt::format("the model's type {} is not supported", model_.type), "supported are unigram and bpe");
    }
    if (model_.space_at_end || !model_.escape_whitespaces)
      fail("the model does with white space what is not supported", "use a tokenizer.json of it");
    const bool bpe = model_.type == 2;
    spec_.model = bpe ? ModelKind::kBpe : ModelKind::kUnigram;
    spec_.spelling = Spelling::kPieces;
    spec_.bytes_are_text = false;
    spec_.fuse_unknown = true;
    read_pieces();
    if (bpe) spec_.merges = merges_by_score(spec_.vocab, by_id(), where_);
    add_configured();
    read_normalizer();
    surround(bpe ? Custom::kBos : Custom::kEos);
    return {std::move(spec_), text_of(model_.bos_id), text_of(model_.eos_id)};
  }

 private:
  enum class Custom : std::uint8_t { kBos, kEos };
  enum class Found : std::uint8_t { kEverywhere, kWhereParsed };

  [[noreturn]] void fail(std::string what, std::string fix) const {
    fail_input(std::move(what), where_, std::move(fix));
  }

  std::vector<float> by_id() const {
    std::vector<float> scores;
    scores.reserve(model_.pieces.size());
    for (const ModelPiece& piece : model_.pieces) scores.push_back(piece.score);
    return scores;
  }

  void read_pieces() {
    constexpr double kUnknownPenalty = 10;  // SentencePiece's, below the worst score
    double worst = std::numeric_limits<double>::infinity();
    bool bytes = false;
    for (size_t i = 0; i < model_.pieces.size(); ++i) {
      const ModelPiece& piece = model_.pieces[i];
      const auto id = static_cast<TokenId>(i);
      switch (piece.type) {
        case PieceType::kNormal:
          worst = std::min<double>(worst, piece.score);
          add(piece, id);
          break;
        case PieceType::kByte:
          if (!byte_of_piece(piece.text)) fail(fmt::format("the piece {} is no byte", id), "download the file again");
          bytes = true;
          add(piece, id);
          break;
        case PieceType::kUnused:
          if (spec_.model == ModelKind::kBpe)
            fail(fmt::format("the piece {} is unused, which is not supported in bpe", id),
                 "use a tokenizer.json of it");
          spec_.silent.push_back({unmark_spaces(piece.text), id, false});
          break;
        case PieceType::kUnknown:
          if (spec_.unknown_token) fail("the model has two unknown pieces", "download the file again");
          spec_.unknown_token = piece.text;
          add_token(piece.text, id, Found::kWhereParsed);
          break;
        case PieceType::kControl:
          add_token(piece.text, id, Found::kWhereParsed);
          break;
        case PieceType::kUserDefined:
          add_token(piece.text, id, Found::kEverywhere);
          break;
        default:
          fail(fmt::format("the piece {} has an unknown type", id), "download the file again");
      }
    }
    spec_.byte_fallback = bytes;
    spec_.unknown_score = (std::isinf(worst) ? 0 : worst) - kUnknownPenalty;
  }

  void add(const ModelPiece& piece, TokenId id) {
    spec_.vocab.emplace_back(piece.text, id);
    spec_.scores.push_back(piece.score);
  }

  // What the user defined is looked for in the normalized text, and passes the normalizers as it is.
  void add_token(const std::string& text, TokenId id, Found found) {
    const bool special = found == Found::kWhereParsed;
    if (text.size() > kMaxAddedTokenBytes) fail(fmt::format("the piece {} is too long", id), "use another model");
    spec_.added.push_back({.content = text, .id = id, .special = special, .normalized = !special});
  }

  // Those of tokenizer_config.json that the model does not have.
  void add_configured() {
    for (AddedToken token : config_.added) {
      const auto same = std::ranges::find(spec_.added, token.id, &AddedToken::id);
      const bool piece = static_cast<size_t>(token.id) < model_.pieces.size();
      if (piece && model_.pieces[static_cast<size_t>(token.id)].text != token.content)
        fail(fmt::format("tokenizer_config.json calls the piece {} '{}'", token.id, token.content),
             "check that the two files belong together");
      token.normalized = false;
      if (same == spec_.added.end()) {
        spec_.added.push_back(std::move(token));
      } else {
        const bool normalized = same->normalized && !token.special;
        *same = std::move(token);
        same->normalized = normalized;
      }
    }
  }

  void read_normalizer() {
    spec_.added_as_written = true;
    CharsmapStep table;
    if (!model_.charsmap.empty()) table.map = std::make_shared<const Charsmap>(model_.charsmap, where_);
    std::vector<std::pair<std::string_view, std::int32_t>> kept;
    for (const AddedToken& token : spec_.added) {
      if (token.normalized) kept.emplace_back(token.content, 0);
    }
    if (!kept.empty()) table.kept = std::make_shared<const ByteTrie>(std::move(kept));
    // A text of which the table leaves nothing still gets its prefix, unless extra spaces go.
    using Spaces = SpaceMarksStep;
    const bool removes = model_.remove_extra_whitespaces;
    if (model_.add_dummy_prefix && !removes) spec_.normalizers.emplace_back(PrependStep{std::string(kSpaceMark)});
    if (table.map) spec_.normalizers.emplace_back(std::move(table));
    spec_.normalizers.emplace_back(
        Spaces{model_.add_dummy_prefix && removes ? Spaces::Prefix::kText : Spaces::Prefix::kNever,
               removes ? Spaces::Extra::kRemove : Spaces::Extra::kKeep});
    // Where extra spaces go, so do all before the first word.
    const int first = removes ? kMostLeading : model_.add_dummy_prefix ? 1 : 0;
    spec_.decoder = {ReplaceDecode{std::string(kSpaceMark), " "}, ByteFallbackDecode{}, FuseDecode{},
                     StripDecode{" ", first, 0}};
  }

  bool is_piece(std::int64_t id) const { return id >= 0 && static_cast<size_t>(id) < model_.pieces.size(); }

  void surround(Custom custom) {
    if (config_.add_bos_token.value_or(custom == Custom::kBos) && is_piece(model_.bos_id))
      spec_.before.push_back(static_cast<TokenId>(model_.bos_id));
    if (config_.add_eos_token.value_or(custom == Custom::kEos) && is_piece(model_.eos_id))
      spec_.after.push_back(static_cast<TokenId>(model_.eos_id));
  }

  static constexpr int kMostLeading = 16;

  std::optional<std::string> text_of(std::int64_t id) const {
    if (!is_piece(id)) return std::nullopt;
    return model_.pieces[static_cast<size_t>(id)].text;
  }

  Model model_;
  const TokenizerConfig& config_;
  const std::string& where_;
  TokenizerSpec spec_;
};

}  // namespace

SentencePieceTokenizer parse_sentencepiece_model(std::string_view bytes, const TokenizerConfig& config,
                                                 const std::string& where) {
  return Converter(ModelReader(bytes, where).read(), config, where).run();
}

}  // namespace kvasir

#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/mmap_file.h"
#include "text/decode_stream.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer_data.h"
#include "text/tokenizer_source.h"

namespace kvasir {
namespace {

constexpr size_t kLongestText = size_t{1} << 30;

// One text on its way to tokens: added tokens first, then normalization, then words, then merges.
class Encoder {
 public:
  explicit Encoder(const TokenizerData& data) : data_(data) {}

  std::vector<TokenId> run(MarkedRanges text) {
    for (const AddedSplit& split : data_.raw_added->split(text.text, text.marked)) {
      if (split.token) {
        out_.push_back(*split.token);
      } else {
        segment(part_of(text, split.range), split.range.begin == 0 ? TextPlace::kBeginning : TextPlace::kLater);
      }
    }
    return std::move(out_);
  }

 private:
  static MarkedRanges part_of(const MarkedRanges& whole, TextRange range) {
    MarkedRanges part{whole.text.substr(range.begin, range.size()), {}};
    const auto after_begin = [&](const TextRange& marked) { return marked.end <= range.begin; };
    auto marked = std::ranges::partition_point(whole.marked, after_begin);
    for (; marked != whole.marked.end() && marked->begin < range.end; ++marked) {
      part.marked.push_back(
          {std::max(marked->begin, range.begin) - range.begin, std::min(marked->end, range.end) - range.begin});
    }
    return part;
  }

  void segment(MarkedRanges text, TextPlace place) {
    for (const NormalizerStep& step : data_.normalizers) normalize(step, text);
    if (data_.normalized_added->empty()) {
      plain(std::move(text.text), place);
      return;
    }
    for (const AddedSplit& split : data_.normalized_added->split(text.text, text.marked)) {
      if (split.token) {
        out_.push_back(*split.token);
      } else {
        plain(text.text.substr(split.range.begin, split.range.size()),
              split.range.begin == 0 ? place : TextPlace::kLater);
      }
    }
  }

  void plain(std::string text, TextPlace place) {
    const Words words = data_.pretokenizer->cut(std::move(text), place);
    for (size_t i = 0; i < words.words.size(); ++i) word(words[i]);
  }

  void word(std::string_view bytes) {
    if (!data_.by_word.empty()) {
      if (const auto found = data_.by_word.find(bytes); found != data_.by_word.end()) {
        out_.push_back(found->second);
        return;
      }
    }
    std::visit([&](const auto& model) { model.encode_word(bytes, out_); }, *data_.model);
  }

  const TokenizerData& data_;
  std::vector<TokenId> out_;
};

// What lies beside a tokenizer.
struct Beside {
  TokenizerConfig config;
  std::string chat_template_where;
};

Beside read_beside(const std::filesystem::path& folder) {
  Beside out;
  const std::filesystem::path config = folder / "tokenizer_config.json";
  if (std::filesystem::exists(config)) {
    out.config = parse_tokenizer_config(MmapFile(config).text(), config.string());
    out.chat_template_where = config.string();
  }
  const std::filesystem::path jinja = folder / "chat_template.jinja";
  if (std::filesystem::exists(jinja)) {
    out.config.chat_template = std::string(MmapFile(jinja).text());
    out.chat_template_where = jinja.string();
  }
  return out;
}

std::filesystem::path tokenizer_file(const std::filesystem::path& model_dir_or_file) {
  if (!std::filesystem::is_directory(model_dir_or_file)) return model_dir_or_file;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model"}) {
    if (std::filesystem::exists(model_dir_or_file / name)) return model_dir_or_file / name;
  }
  return model_dir_or_file / "tokenizer.json";
}

}  // namespace

TokenizerSource read_tokenizer(const std::filesystem::path& model_dir_or_file) {
  TokenizerSource out;
  const std::filesystem::path file = tokenizer_file(model_dir_or_file);
  out.where = file.string();
  const MmapFile bytes(file);
  Beside beside = read_beside(file.parent_path());
  out.chat_template_where = std::move(beside.chat_template_where);
  if (file.extension() == ".model") {
    SentencePieceTokenizer tokenizer = parse_sentencepiece_model(bytes.text(), beside.config, out.where);
    out.spec = std::move(tokenizer.spec);
    if (!beside.config.bos_token) beside.config.bos_token = tokenizer.bos_token;
    if (!beside.config.eos_token) beside.config.eos_token = tokenizer.eos_token;
  } else {
    out.spec = parse_tokenizer_json(bytes.text(), out.where);
  }
  out.config = std::move(beside.config);
  return out;
}

Tokenizer Tokenizer::load(const std::filesystem::path& model_dir_or_file) {
  TokenizerSource source = read_tokenizer(model_dir_or_file);
  std::shared_ptr<TokenizerData> data = build_tokenizer(std::move(source.spec), source.where);
  data->config = std::move(source.config);
  data->chat_template_where = std::move(source.chat_template_where);
  return Tokenizer(std::move(data));
}

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& where) {
  return Tokenizer(build_tokenizer(parse_tokenizer_json(json, where), where));
}

Tokenizer Tokenizer::from_sentencepiece(std::string_view model, const std::string& where) {
  return Tokenizer(build_tokenizer(parse_sentencepiece_model(model, {}, where).spec, where));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, Specials specials) const {
  const TextPiece piece{text, specials};
  return encode(std::span(&piece, 1));
}

std::vector<TokenId> Tokenizer::encode(std::span<const TextPiece> pieces) const {
  MarkedRanges text;
  for (const TextPiece& piece : pieces) {
    if (piece.text.empty()) continue;
    const size_t begin = text.text.size();
    if (begin + piece.text.size() >= kLongestText) {
      fail_input("a text of 1 GiB or more cannot be tokenized", data_->where, "send less text");
    }
    text.text += piece.text;
    if (piece.specials == Specials::kParse) continue;
    if (!text.marked.empty() && text.marked.back().end == begin) {
      text.marked.back().end = text.text.size();
    } else {
      text.marked.push_back({begin, text.text.size()});
    }
  }
  return Encoder(*data_).run(std::move(text));
}

std::vector<TokenId> Tokenizer::encode_document(std::string_view text, Specials specials) const {
  return as_document(encode(text, specials));
}

std::vector<TokenId> Tokenizer::as_document(std::vector<TokenId> tokens) const {
  tokens.insert(tokens.begin(), data_->before.begin(), data_->before.end());
  tokens.insert(tokens.end(), data_->after.begin(), data_->after.end());
  return tokens;
}

Tokenizer::Pair Tokenizer::as_pair(std::span<const TokenId> first, std::span<const TokenId> second) const {
  Pair out;
  for (const PairPart& part : data_->pair) {
    const std::span<const TokenId> own{&part.token, 1};
    const std::span<const TokenId> added =
        part.what == PairPart::What::kToken ? own : (part.what == PairPart::What::kFirst ? first : second);
    out.tokens.insert(out.tokens.end(), added.begin(), added.end());
    out.types.resize(out.tokens.size(), part.type);
  }
  return out;
}

std::string_view Tokenizer::bytes_of(TokenId id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return data_->tokens[static_cast<size_t>(id)].bytes;
}

std::string Tokenizer::decode(std::span<const TokenId> tokens, SkipSpecials specials) const {
  DecodeStream stream(*this, specials, TextStream::Begins::kHere);
  std::string out;
  for (const TokenId id : tokens) stream.push(id, out);
  stream.finish(out);
  return out;
}

std::optional<TokenId> Tokenizer::id_of(std::string_view token_text) const {
  if (const auto found = data_->by_content.find(token_text); found != data_->by_content.end()) return found->second;
  if (const auto found = data_->by_spelling.find(token_text); found != data_->by_spelling.end()) return found->second;
  return std::nullopt;
}

bool Tokenizer::is_special(TokenId id) const {
  return id >= 0 && id < vocab_size() && data_->tokens[static_cast<size_t>(id)].special;
}

int Tokenizer::vocab_size() const { return static_cast<int>(data_->tokens.size()); }

const std::optional<std::string>& Tokenizer::bos_token() const { return data_->config.bos_token; }
const std::optional<std::string>& Tokenizer::eos_token() const { return data_->config.eos_token; }
const std::optional<std::string>& Tokenizer::chat_template() const { return data_->config.chat_template; }
const std::string& Tokenizer::chat_template_where() const { return data_->chat_template_where; }

}  // namespace kvasir

// Two questions in one input, parted by its first NUL: does a damaged tokenizer.json end in an Error and
// nothing worse, and does any text come back from encode and decode unchanged? An input that begins as a
// tokenizer.model does is one, and the text is its end.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "text/byte_level.h"
#include "text/gguf_vocab.h"
#include "text/pieces.h"
#include "text/tokenizer.h"
#include "use_tokenizer.h"

namespace kvasir {
namespace {

// A few SentencePiece tokens and all bytes.
GgufVocab plain_pieces() {
  GgufVocab vocab;
  vocab.where = "plain";
  vocab.model = "llama";
  vocab.tokens = {"<unk>", "<s>", "</s>", "▁", "▁▁", "t", "h", "e", "th", "he", "the", "▁the", "s>"};
  vocab.token_type = {GgufVocab::kUnknown, GgufVocab::kControl, GgufVocab::kControl};
  for (unsigned byte = 0; byte < 256; ++byte) vocab.tokens.push_back(byte_piece(static_cast<unsigned char>(byte)));
  for (size_t i = 0; i < vocab.tokens.size(); ++i) vocab.scores.push_back(-static_cast<float>(i));
  vocab.token_type.resize(vocab.tokens.size(), GgufVocab::kNormal);
  return vocab;
}

// All bytes, a few merges, NUL-free: valid on its own, so that the text is tried even when the JSON is
// damaged.
std::string plain_tokenizer_json() {
  std::string vocab;
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string spelled;
    append_utf8(spelled, byte_to_char(static_cast<unsigned char>(byte)));
    if (spelled == "\"" || spelled == "\\") spelled.insert(0, "\\");
    vocab += "\"" + spelled + "\":" + std::to_string(byte) + ",";
  }
  return R"({"added_tokens":[{"id":260,"content":"<s>","special":true},{"id":261,"content":"<b> ","rstrip":true}],
    "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":
    "(?i:'s|'ll)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    "behavior":"Isolated"},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},
    "decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{)" +
         vocab + R"("th":256,"he":257,"Ġt":258,"Ġthe":259},"merges":["t h","h e","Ġ t","Ġt he"]}})";
}

void run(std::string_view json, std::string_view text) {
  try {
    use_tokenizer(Tokenizer::from_json(json, "fuzz"), text);
  } catch (const Error&) {
    // The right answer to a damaged file.
  }
}

void run_model(std::string_view model, std::string_view text) {
  try {
    use_tokenizer(Tokenizer::from_sentencepiece(model, "fuzz"), text);
  } catch (const Error&) {
    // The right answer to a damaged file.
  }
}

void run_plain(std::string_view text) {
  static const Tokenizer tokenizer = Tokenizer::from_json(plain_tokenizer_json(), "plain");
  use_tokenizer(tokenizer, text);
  const std::vector<TokenId> ids = tokenizer.encode(text, Tokenizer::Specials::kPlain);
  if (text.find("<b> ") == std::string_view::npos) {
    CHECK(tokenizer.decode(ids, Tokenizer::SkipSpecials::kKeep) == text);
  }
  for (const TokenId id : ids) CHECK(!tokenizer.is_special(id));
}

void run_pieces(std::string_view text) {
  static const Tokenizer tokenizer = make_tokenizer(plain_pieces());
  use_tokenizer(tokenizer, text);
  const std::vector<TokenId> ids = tokenizer.encode(text, Tokenizer::Specials::kPlain);
  if (text.find(kSpaceMark) == std::string_view::npos) {
    CHECK(tokenizer.decode(ids, Tokenizer::SkipSpecials::kKeep) == text);
  }
  for (const TokenId id : ids) CHECK(!tokenizer.is_special(id));
}

}  // namespace
}  // namespace kvasir

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t nul = all.find('\0');
  // A longer text would be time spent on what a short one has already shown.
  constexpr std::size_t kLongestText = 300;
  const std::string_view text = (nul == std::string_view::npos ? all : all.substr(nul + 1)).substr(0, kLongestText);
  constexpr char kFirstPiece = '\n';  // the tag of a model's first field
  if (all.starts_with(kFirstPiece)) {
    kvasir::run_model(all, all.substr(all.size() - std::min<std::size_t>(all.size(), 60)));
    return 0;
  }
  if (nul != std::string_view::npos) kvasir::run(all.substr(0, nul), text);
  kvasir::run_plain(text);
  kvasir::run_pieces(text);
  return 0;
}

#include "text/gguf_export.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/mmap_file.h"
#include "text/gguf_pretokenizer.h"
#include "text/tokenizer_json.h"

namespace kvasir {
namespace {

class Exporter {
 public:
  Exporter(const TokenizerSpec& spec, const std::string& where) : spec_(spec) { out_.where = where; }

  GgufVocab run(int size) {
    if (spec_.spelling != Spelling::kByteLevel || !spec_.normalizers.empty()) {
      fail("only byte-level BPE without a normalizer can be written to GGUF");
    }
    out_.model = "gpt2";
    out_.pre = pretokenizer();
    read_tokens(size);
    for (const TokenizerSpec::Merge& merge : spec_.merges) out_.merges.push_back(merge.left + ' ' + merge.right);
    out_.bos_token_id = only(spec_.before, "before");
    out_.eos_token_id = only(spec_.after, "after");
    out_.add_bos_token = out_.bos_token_id.has_value();
    out_.add_eos_token = out_.eos_token_id.has_value();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string what) const {
    fail_input(std::move(what), out_.where, "use the folder as it is, or another tokenizer");
  }

  std::string pretokenizer() const {
    // Without merges every byte is a token, wherever the words end.
    if (spec_.merges.empty() && !spec_.ignore_merges) return "gpt-2";
    const std::string_view name = gguf_pretokenizer_name(spec_.pretokenizers, spec_.ignore_merges);
    if (name.empty()) fail("GGUF has no name for this pre-tokenizer");
    return std::string(name);
  }

  void read_tokens(int size) {
    const auto count = static_cast<size_t>(size);
    out_.tokens.resize(count);
    out_.token_type.resize(count, GgufVocab::kUnused);
    const auto put = [&](const std::string& text, TokenId id, GgufVocab::Type type) {
      if (id < 0 || id >= size)
        fail(fmt::format("the token '{}' has the id {}, and the model has {}", text, id, size));
      out_.tokens[static_cast<size_t>(id)] = text;
      out_.token_type[static_cast<size_t>(id)] = type;
    };
    for (const auto& [text, id] : spec_.vocab) put(text, id, GgufVocab::kNormal);
    for (const AddedToken& added : spec_.added) {
      put(added.content, added.id, added.special ? GgufVocab::kControl : GgufVocab::kUserDefined);
    }
    for (size_t i = 0; i < count; ++i) {
      if (out_.tokens[i].empty()) out_.tokens[i] = fmt::format("[PAD{}]", i);
    }
  }

  std::optional<std::int64_t> only(const std::vector<TokenId>& added, std::string_view where) const {
    if (added.size() > 1) fail(fmt::format("the tokenizer puts {} tokens {} a text", added.size(), where));
    return added.empty() ? std::nullopt : std::optional<std::int64_t>(added.front());
  }

  const TokenizerSpec& spec_;
  GgufVocab out_;
};

// Where the post-processor does not name it.
void name_token(const std::optional<std::string>& text, const GgufVocab& vocab, std::optional<std::int64_t>& id) {
  if (id || !text) return;
  const auto found = std::ranges::find(vocab.tokens, *text);
  if (found != vocab.tokens.end()) id = found - vocab.tokens.begin();
}

}  // namespace

GgufVocab gguf_vocab_of(const std::filesystem::path& folder, int size) {
  const std::filesystem::path file = folder / "tokenizer.json";
  const TokenizerSpec spec = parse_tokenizer_json(MmapFile(file).text(), file.string());
  GgufVocab vocab = Exporter(spec, file.string()).run(size);
  const Tokenizer tokenizer = Tokenizer::load(folder);
  name_token(tokenizer.bos_token(), vocab, vocab.bos_token_id);
  name_token(tokenizer.eos_token(), vocab, vocab.eos_token_id);
  vocab.chat_template = tokenizer.chat_template();
  return vocab;
}

}  // namespace kvasir

#include <fmt/format.h>

#include "text/json_parts.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_parts.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

constexpr int kMaxStrip = 16;
constexpr size_t kMaxDecodeGrowth = 16;  // of a token by each Replace

constexpr std::string_view kDecoders =
    "BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, Metaspace, Replace, Sequence, Strip and WordPiece";

// Some orders are another text in every library, or need the whole text before its first character is known: those
// are refused.
class DecoderReader {
 public:
  std::vector<DecodeStep> read(const JsonReader& decoder) {
    for_each_part(decoder, "decoders", [&](const JsonReader& part) { read_part(part); });
    return std::move(steps_);
  }

 private:
  void read_part(const JsonReader& part) {
    const std::string_view type = part.get("type").text();
    if (type == "Fuse") {
      add(FuseDecode{});
      fused_ = true;
    } else if (type == "Strip") {
      add(read_strip(part), part);
    } else if (type == "Replace") {
      add(read_replace(part), part);
    } else if (type == "ByteLevel") {
      add_on_tokens(ByteLevelDecode{}, part);
      fused_ = true;
    } else if (type == "ByteFallback") {
      add_on_tokens(ByteFallbackDecode{}, part);
      bytes_ = true;
    } else if (type == "WordPiece") {
      add_on_tokens(WordPieceDecode{std::string(part.text_or("prefix", "##")), part.flag_or("cleanup", true)}, part);
    } else if (type == "Metaspace") {
      add_on_tokens(read_metaspace(part), part);
    } else if (type == "BPEDecoder") {
      add_on_tokens(SuffixDecode{std::string(part.text_or("suffix", "</w>"))}, part);
    } else if (type == "CTC") {
      if (!steps_.empty()) part.fail("is out of order", "CTC must be the first decoder");
      add_on_tokens(CtcDecode{std::string(part.text_or("pad_token", "<pad>")),
                              std::string(part.text_or("word_delimiter_token", "|")), part.flag_or("cleanup", true)},
                    part);
    } else {
      refuse_part(part, kDecoders);
    }
    if (steps_.size() > kMaxParts) part.fail("is one decoder too many");
  }

  void add(DecodeStep step) { steps_.push_back(std::move(step)); }

  // One that may come before Fuse and after it.
  void add(DecodeStep step, const JsonReader& part) {
    if (bytes_ && !fused_) part.fail("is out of order", "after ByteFallback only Fuse is supported");
    add(std::move(step));
  }

  void add_on_tokens(DecodeStep step, const JsonReader& part) {
    if (fused_) part.fail("is out of order", "after Fuse and ByteLevel only Strip and Replace are supported");
    add(std::move(step), part);
  }

  static StripDecode read_strip(const JsonReader& part) {
    const JsonReader content = part.get("content");
    const std::string_view text = content.text();
    if (text.empty() || static_cast<size_t>(utf8_at(text, 0).size) != text.size())
      content.fail("is not one character");
    StripDecode step{std::string(text)};
    step.start = static_cast<int>(part.get("start").integer({0, kMaxStrip}));
    step.stop = static_cast<int>(part.get("stop").integer({0, kMaxStrip}));
    return step;
  }

  ReplaceDecode read_replace(const JsonReader& part) const {
    const JsonReader pattern = part.get("pattern");
    const std::string content(part.get("content").text());
    if (const auto regex = pattern.find("Regex")) {
      if (fused_) pattern.fail("is a Regex", "after Fuse only a String can be replaced");
      Regex compiled(regex->text(), part.where());
      if (compiled.can_match_nothing()) regex->fail("can match nothing", "a pattern to replace must match something");
      if (content.size() > kMaxDecodeGrowth) part.fail("makes texts too long");
      return {std::move(compiled), content};
    }
    const JsonReader text = pattern.get("String");
    if (text.text().empty()) text.fail("is empty");
    if (content.size() > kMaxDecodeGrowth * text.text().size()) part.fail("makes texts too long");
    return {std::string(text.text()), content};
  }

  static MetaspaceDecode read_metaspace(const JsonReader& part) {
    MetaspaceDecode step{std::string(part.text_or("replacement", "▁")), true};
    if (step.mark.empty()) part.get("replacement").fail("is empty");
    const std::string_view scheme = part.text_or("prepend_scheme", "always");
    if (scheme != "always" && scheme != "first" && scheme != "never")
      part.get("prepend_scheme").fail(fmt::format("is '{}', which is not supported", scheme));
    step.first_has_none = scheme != "never" && part.flag_or("add_prefix_space", true);
    return step;
  }

  std::vector<DecodeStep> steps_;
  bool fused_ = false;
  bool bytes_ = false;  // ByteFallback was there
};

}  // namespace

std::vector<DecodeStep> read_decoder(const JsonReader& decoder) { return DecoderReader().read(decoder); }

}  // namespace kvasir

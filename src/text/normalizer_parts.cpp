#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/base64.h"
#include "text/json_parts.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_parts.h"

namespace kvasir {
namespace {

constexpr size_t kMaxGrowth = 16;  // of a text by all normalizers together

constexpr std::string_view kNormalizers =
    "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, Sequence, Strip "
    "and StripAccents";

class NormalizerReader {
 public:
  std::vector<NormalizerStep> read(const JsonReader& normalizer) {
    for_each_part(normalizer, "normalizers", [&](const JsonReader& part) {
      read_part(part);
      if (steps_.size() > kMaxParts) part.fail("is one normalizer too many");
      if (growth_ > kMaxGrowth) part.fail("makes texts too long");
    });
    return std::move(steps_);
  }

 private:
  void read_part(const JsonReader& part) {
    const std::string_view type = part.get("type").text();
    if (read_simple(type)) return;
    if (type == "Prepend") {
      const JsonReader text = part.get("prepend");
      if (text.text().size() > kMaxAddedTokenBytes) text.fail("is too long");
      steps_.emplace_back(PrependStep{std::string(text.text())});
    } else if (type == "Strip") {
      steps_.emplace_back(TrimStep{part.flag_or("strip_left", true), part.flag_or("strip_right", true)});
    } else if (type == "Replace") {
      read_replace(part);
    } else if (type == "BertNormalizer") {
      read_bert(part);
    } else if (type == "Precompiled") {
      read_precompiled(part);
    } else {
      refuse_part(part, kNormalizers);
    }
  }

  bool read_simple(std::string_view type) {
    struct Named {
      std::string_view type;
      NormalizerStep step;
    };
    static const std::array<Named, 8> kSimple{{{"NFC", NormalForm::kNfc},
                                               {"NFD", NormalForm::kNfd},
                                               {"NFKC", NormalForm::kNfkc},
                                               {"NFKD", NormalForm::kNfkd},
                                               {"Lowercase", LowercaseStep{}},
                                               {"StripAccents", StripAccentsStep{}},
                                               {"Nmt", NmtStep{}},
                                               {"ByteLevel", SpellBytesStep{}}}};
    const auto* found = std::ranges::find(kSimple, type, &Named::type);
    if (found == kSimple.end()) return false;
    if (type == "ByteLevel") growth_ *= 2;
    steps_.push_back(found->step);
    return true;
  }

  void read_replace(const JsonReader& part) {
    const JsonReader pattern = part.get("pattern");
    std::string content(part.get("content").text());
    if (const auto regex = pattern.find("Regex")) {
      Regex compiled(regex->text(), part.where());
      if (compiled.can_match_nothing()) regex->fail("can match nothing", "a pattern to replace must match something");
      growth_ *= std::max<size_t>(1, content.size());
      steps_.emplace_back(RegexReplaceStep{std::move(compiled), std::move(content)});
      return;
    }
    const JsonReader text = pattern.get("String");
    const size_t size = text.text().size();
    if (size == 0) text.fail("is empty");
    growth_ *= std::max<size_t>(1, (content.size() + size - 1) / size);
    steps_.emplace_back(ReplaceStep{std::string(text.text()), std::move(content)});
  }

  void read_bert(const JsonReader& part) {
    const bool lowercase = part.flag_or("lowercase", true);
    if (part.flag_or("clean_text", true)) steps_.emplace_back(CleanTextStep{});
    if (part.flag_or("handle_chinese_chars", true)) {
      steps_.emplace_back(SpaceChineseStep{});
      growth_ *= 2;
    }
    if (part.flag_or("strip_accents", lowercase)) {
      steps_.emplace_back(NormalForm::kNfd);
      steps_.emplace_back(StripAccentsStep{Accents::kNonspacing});
    }
    if (lowercase) steps_.emplace_back(LowercaseStep{});
  }

  void read_precompiled(const JsonReader& part) {
    const JsonReader field = part.get("precompiled_charsmap");
    const std::optional<std::string> bytes = decode_base64(field.text());
    if (!bytes) field.fail("is not base64");
    if (precompiled_) part.fail("is the second of its kind", "one Precompiled is supported");
    precompiled_ = true;
    if (bytes->empty()) return;
    steps_.emplace_back(CharsmapStep{std::make_shared<const Charsmap>(*bytes, part.where()),
                                     CharsmapStep::Unit::kGraphemes, nullptr});
  }

  std::vector<NormalizerStep> steps_;
  size_t growth_ = 1;
  bool precompiled_ = false;
};

}  // namespace

std::vector<NormalizerStep> read_normalizer(const JsonReader& normalizer) {
  return NormalizerReader().read(normalizer);
}

}  // namespace kvasir

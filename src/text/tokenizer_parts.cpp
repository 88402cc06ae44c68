#include "text/tokenizer_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/pieces.h"
#include "text/tokenizer_json.h"

namespace kvasir {
namespace {

constexpr int kMaxNesting = 8;
constexpr size_t kMaxSteps = 64;
constexpr size_t kMaxSurroundings = 256;
constexpr size_t kMaxGrowth = 16;  // of a text by all Replace together
constexpr int kMaxStrip = 16;

[[noreturn]] void refuse_type(const JsonReader& part, std::string_view supported) {
  part.fail(fmt::format("has the type '{}', which is not supported", part.get("type").text()),
            fmt::format("supported are {}", supported));
}

// Calls `visit` with each part of nested Sequences that is none itself. `key` is what Sequence calls its
// list.
template <class Visit>
void for_each_part(const JsonReader& part, std::string_view key, Visit visit, int nesting = 0) {
  if (part.get("type").text() != "Sequence") {
    visit(part);
    return;
  }
  if (nesting >= kMaxNesting) part.fail("nests too deeply");
  const JsonReader list = part.get(key);
  if (list.items().size() > kMaxSteps) list.fail("has too many entries");
  for (const JsonReader entry : list.items()) for_each_part(entry, key, visit, nesting + 1);
}

SplitBehavior behavior_from(const JsonReader& value) {
  struct Named {
    std::string_view name;
    SplitBehavior behavior;
  };
  static constexpr std::array<Named, 5> kNames{{{"Removed", SplitBehavior::kRemoved},
                                                {"Isolated", SplitBehavior::kIsolated},
                                                {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
                                                {"MergedWithNext", SplitBehavior::kMergedWithNext},
                                                {"Contiguous", SplitBehavior::kContiguous}}};
  for (const Named& known : kNames) {
    if (known.name == value.text()) return known.behavior;
  }
  value.fail(fmt::format("is '{}', which is not supported", value.text()));
}

// A literal string as a pattern: all that could be syntax is escaped.
std::string quoted(std::string_view literal) {
  std::string out;
  for (const char c : literal) {
    if (std::string_view(R"(\^$.|?*+()[]{}-)").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

SplitStep read_split(const JsonReader& part) {
  const JsonReader pattern = part.get("pattern");
  const std::optional<JsonReader> regex = pattern.find("Regex");
  const std::string source = regex ? std::string(regex->text()) : quoted(pattern.get("String").text());
  const auto matches = part.flag_or("invert", false) ? SplitStep::Matches::kRest : SplitStep::Matches::kPattern;
  return {Regex(source, part.where()), behavior_from(part.get("behavior")), matches};
}

SplitStep read_digits(const JsonReader& part) {
  const auto behavior =
      part.flag_or("individual_digits", false) ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  return {Regex(R"(\p{N})", part.where()), behavior, SplitStep::Matches::kPattern};
}

MetaspaceStep read_metaspace(const JsonReader& part) {
  if (part.get("replacement").text() != kSpaceMark) part.get("replacement").fail("must be '▁'");
  MetaspaceStep step;
  if (const auto scheme = part.find("prepend_scheme")) {
    const std::string_view name = scheme->text();
    if (name == "never") {
      step.prepend = MetaspaceStep::Prepend::kNever;
    } else if (name == "first") {
      step.prepend = MetaspaceStep::Prepend::kFirst;
    } else if (name != "always") {
      scheme->fail(fmt::format("is '{}', which is not supported", name), "supported are always, first and never");
    }
  }
  // What older files have instead.
  if (!part.flag_or("add_prefix_space", true)) {
    if (step.prepend == MetaspaceStep::Prepend::kFirst)
      part.fail("contradicts itself: add_prefix_space, prepend_scheme");
    step.prepend = MetaspaceStep::Prepend::kNever;
  }
  if (!part.flag_or("split", true)) step.cut = MetaspaceStep::Cut::kNever;
  return step;
}

std::string_view literal_pattern(const JsonReader& part) {
  const JsonReader pattern = part.get("pattern");
  if (pattern.find("Regex")) pattern.fail("is a Regex", "only a String can be replaced");
  const JsonReader text = pattern.get("String");
  if (text.text().empty()) text.fail("is empty");
  return text.text();
}

NormalizerStep normalizer_step(const JsonReader& part) {
  const std::string_view type = part.get("type").text();
  if (type == "NFC") return NormalForm::kNfc;
  if (type == "NFD") return NormalForm::kNfd;
  if (type == "NFKC") return NormalForm::kNfkc;
  if (type == "NFKD") return NormalForm::kNfkd;
  if (type == "Prepend") {
    const JsonReader text = part.get("prepend");
    if (text.text().size() > kMaxAddedTokenBytes) text.fail("is too long");
    return PrependStep{std::string(text.text())};
  }
  if (type == "Replace")
    return ReplaceStep{std::string(literal_pattern(part)), std::string(part.get("content").text())};
  refuse_type(part, "NFC, NFD, NFKC, NFKD, Prepend, Replace and Sequence");
}

// Tokens spelled in pieces come back as text through Replace (marks to spaces), ByteFallback, Fuse and Strip, in this
// order; a model without byte_fallback may do without ByteFallback. Another order, or one of them doing something
// else, would be another text.
class PieceDecoder {
 public:
  PieceDecoder(const JsonReader& decoder, TokenizerSpec& spec) : decoder_(decoder), spec_(spec) {}

  void read() {
    spec_.byte_pieces = false;
    for_each_part(decoder_, "decoders", [&](const JsonReader& part) { read_part(part); });
    if (last_ < kFuse) {
      decoder_.fail(
          "lacks a part",
          "a decoder of pieces is Replace, ByteFallback, Fuse and, where a space goes before a text, Strip");
    }
  }

 private:
  enum Part { kNone, kReplace, kByteFallback, kFuse, kStrip };

  void read_part(const JsonReader& part) {
    const std::string_view type = part.get("type").text();
    if (type == "Replace") {
      follow(part, kReplace);
      if (literal_pattern(part) != kSpaceMark || part.get("content").text() != " ") part.fail("must make ' ' of '▁'");
    } else if (type == "ByteFallback") {
      follow(part, kByteFallback);
      spec_.byte_pieces = true;
    } else if (type == "Fuse") {
      if (last_ == kReplace && !spec_.byte_fallback) last_ = kByteFallback;
      follow(part, kFuse);
    } else if (type == "Strip") {
      follow(part, kStrip);
      const std::int64_t start = part.get("start").integer();
      if (part.get("content").text() != " " || start < 0 || start > kMaxStrip || part.get("stop").integer() != 0) {
        part.fail(fmt::format("must take at most {} spaces, and only from the beginning", kMaxStrip));
      }
      spec_.leading_spaces = static_cast<int>(start);
    } else {
      refuse_type(part, "Replace, ByteFallback, Fuse, Strip and Sequence without ByteLevel");
    }
  }

  void follow(const JsonReader& part, Part next) {
    if (next != last_ + 1) part.fail("is out of order", "supported is Replace, ByteFallback, Fuse, Strip");
    last_ = next;
  }

  const JsonReader& decoder_;
  TokenizerSpec& spec_;
  int last_ = kNone;
};

std::vector<TokenId> template_ids(const JsonReader& processor, std::string_view name) {
  const JsonReader tokens = processor.get("special_tokens");
  const JsonReader list = tokens.get(name).get("ids");
  if (list.items().size() > kMaxSurroundings) list.fail("has too many entries");
  std::vector<TokenId> ids;
  for (const JsonReader id : list.items()) ids.push_back(static_cast<TokenId>(id.integer({0, kMaxVocab - 1})));
  return ids;
}

Surroundings read_template(const JsonReader& processor) {
  Surroundings around;
  const JsonReader single = processor.get("single");
  bool text_seen = false;
  for (const JsonReader piece : single.items()) {
    if (const auto sequence = piece.find("Sequence")) {
      if (text_seen || sequence->get("id").text() != "A") piece.fail("must name the sequence A, once");
      text_seen = true;
      continue;
    }
    std::vector<TokenId>& side = text_seen ? around.after : around.before;
    for (const TokenId id : template_ids(processor, piece.get("SpecialToken").get("id").text())) side.push_back(id);
    if (side.size() > kMaxSurroundings) single.fail("adds too many tokens");
  }
  if (!text_seen) single.fail("does not contain the sequence A");
  return around;
}

}  // namespace

std::vector<NormalizerStep> read_normalizer(const JsonReader& normalizer) {
  std::vector<NormalizerStep> steps;
  size_t growth = 1;
  for_each_part(normalizer, "normalizers", [&](const JsonReader& part) {
    steps.push_back(normalizer_step(part));
    if (steps.size() > kMaxSteps) part.fail("is one normalizer too many");
    if (const auto* replace = std::get_if<ReplaceStep>(&steps.back())) {
      growth *=
          std::max<size_t>(1, (replace->content.size() + replace->pattern.size() - 1) / replace->pattern.size());
    }
    if (growth > kMaxGrowth) part.fail("makes texts too long");
  });
  return steps;
}

std::vector<Pretokenizer::Step> read_pretokenizer(const JsonReader& pretokenizer, Spelling spelling) {
  std::vector<Pretokenizer::Step> steps;
  bool byte_level = false;
  for_each_part(pretokenizer, "pretokenizers", [&](const JsonReader& part) {
    // ByteLevel replaces the text by stand-in characters; what comes after it would see those.
    if (byte_level) part.fail("comes after ByteLevel", "ByteLevel must be the last pre-tokenizer");
    const std::string_view type = part.get("type").text();
    if (type == "Split") {
      steps.emplace_back(read_split(part));
    } else if (type == "Digits") {
      steps.emplace_back(read_digits(part));
    } else if (type == "Metaspace" && spelling == Spelling::kPieces) {
      steps.emplace_back(read_metaspace(part));
    } else if (type == "ByteLevel" && spelling == Spelling::kByteLevel) {
      byte_level = true;
      if (part.flag_or("add_prefix_space", true)) steps.emplace_back(PrefixSpaceStep{});
      if (part.flag_or("use_regex", true)) steps.emplace_back(SplitStep{Regex(gpt2_pattern(), part.where())});
    } else {
      refuse_type(part, spelling == Spelling::kPieces ? "Metaspace, Split, Digits and Sequence without ByteLevel"
                                                      : "ByteLevel, Split, Digits and Sequence with ByteLevel");
    }
    if (steps.size() > kMaxSteps) part.fail("is one pre-tokenizer too many");
  });
  if (!byte_level && spelling == Spelling::kByteLevel) pretokenizer.fail("has no ByteLevel", std::string(kSupported));
  return steps;
}

Surroundings read_post_processor(const JsonReader& processor) {
  Surroundings all;
  for_each_part(processor, "processors", [&](const JsonReader& part) {
    const std::string_view type = part.get("type").text();
    if (type == "ByteLevel") return;  // moves offsets, which are not kept here
    if (type != "TemplateProcessing") refuse_type(part, "TemplateProcessing, ByteLevel and Sequence");
    Surroundings around = read_template(part);
    all.before.insert(all.before.begin(), around.before.begin(), around.before.end());
    all.after.insert(all.after.end(), around.after.begin(), around.after.end());
    if (all.before.size() > kMaxSurroundings || all.after.size() > kMaxSurroundings)
      part.fail("adds too many tokens");
  });
  return all;
}

bool has_part(const JsonReader& part, std::string_view type) {
  const std::string_view own = part.get("type").text();
  if (own != "Sequence") return own == type;
  bool found = false;
  for (const std::string_view key : {"pretokenizers", "decoders"}) {
    if (part.find(key)) for_each_part(part, key, [&](const JsonReader& one) { found |= has_part(one, type); });
  }
  return found;
}

void read_decoder(const JsonReader& decoder, TokenizerSpec& spec) {
  if (spec.spelling == Spelling::kPieces) return PieceDecoder(decoder, spec).read();
  for_each_part(decoder, "decoders", [](const JsonReader& part) {
    if (part.get("type").text() != "ByteLevel") refuse_type(part, "ByteLevel and Sequence with ByteLevel");
  });
}

}  // namespace kvasir

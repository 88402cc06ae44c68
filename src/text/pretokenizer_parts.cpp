#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/json_parts.h"
#include "text/pieces.h"
#include "text/tokenizer_parts.h"

namespace kvasir {
namespace {

constexpr std::string_view kPretokenizers =
    "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, Sequence, Split, "
    "UnicodeScripts, Whitespace and WhitespaceSplit";

constexpr std::string_view kPunctuation = R"([\p{P}!-/:-@\[-`{-~])";

// \w of Rust's regex library, and what is neither that nor white space.
constexpr std::string_view kWordsOrSigns =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\s]+)";

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

SplitStep split_at(std::string_view pattern, const JsonReader& part, SplitBehavior behavior) {
  return {Regex(pattern, part.where()), behavior, SplitStep::Matches::kPattern};
}

SplitStep read_split(const JsonReader& part) {
  const JsonReader pattern = part.get("pattern");
  const std::optional<JsonReader> regex = pattern.find("Regex");
  const std::string source = regex ? std::string(regex->text()) : quoted_pattern(pattern.get("String").text());
  const auto matches = part.flag_or("invert", false) ? SplitStep::Matches::kRest : SplitStep::Matches::kPattern;
  return {Regex(source, part.where()), behavior_from(part.get("behavior")), matches};
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

SplitStep read_fixed_length(const JsonReader& part) {
  const std::int64_t length = part.find("length") ? part.get("length").integer({1, 10'000}) : 5;
  return split_at(fmt::format(R"([\s\S]{{1,{}}})", length), part, SplitBehavior::kIsolated);
}

void read_byte_level(const JsonReader& part, Spelling spelling, std::vector<Pretokenizer::Step>& steps) {
  if (part.flag_or("add_prefix_space", true)) steps.emplace_back(PrefixSpaceStep{});
  if (part.flag_or("use_regex", true)) steps.emplace_back(SplitStep{Regex(gpt2_pattern(), part.where())});
  if (spelling == Spelling::kPieces) steps.emplace_back(SpellWordsStep{});
}

void read_part(const JsonReader& part, Spelling spelling, std::vector<Pretokenizer::Step>& steps) {
  const std::string_view type = part.get("type").text();
  if (type == "Split") {
    steps.emplace_back(read_split(part));
  } else if (type == "ByteLevel") {
    read_byte_level(part, spelling, steps);
  } else if (type == "Metaspace") {
    steps.emplace_back(read_metaspace(part));
  } else if (type == "Digits") {
    const bool each = part.flag_or("individual_digits", false);
    steps.emplace_back(split_at(R"(\p{N})", part, each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
  } else if (type == "Whitespace") {
    steps.emplace_back(
        SplitStep{Regex(kWordsOrSigns, part.where()), SplitBehavior::kRemoved, SplitStep::Matches::kRest});
  } else if (type == "WhitespaceSplit") {
    steps.emplace_back(split_at(R"(\s+)", part, SplitBehavior::kRemoved));
  } else if (type == "Punctuation") {
    const auto behavior = part.find("behavior");
    steps.emplace_back(split_at(kPunctuation, part, behavior ? behavior_from(*behavior) : SplitBehavior::kIsolated));
  } else if (type == "BertPreTokenizer") {
    for (Pretokenizer::Step& step : bert_splits(part.where())) steps.push_back(std::move(step));
  } else if (type == "CharDelimiterSplit") {
    const std::string pattern = quoted_pattern(part.get("delimiter").text());
    if (pattern.empty()) part.get("delimiter").fail("is empty");
    steps.emplace_back(split_at(pattern, part, SplitBehavior::kRemoved));
  } else if (type == "FixedLength") {
    steps.emplace_back(read_fixed_length(part));
  } else if (type == "UnicodeScripts") {
    steps.emplace_back(UnicodeScriptsStep{});
  } else {
    refuse_part(part, kPretokenizers);
  }
}

}  // namespace

std::vector<Pretokenizer::Step> bert_splits(const std::string& where) {
  return {SplitStep{Regex(R"(\s+)", where), SplitBehavior::kRemoved},
          SplitStep{Regex(kPunctuation, where), SplitBehavior::kIsolated}};
}

std::vector<Pretokenizer::Step> read_pretokenizer(const JsonReader& pretokenizer, Spelling spelling) {
  constexpr size_t kMaxSpelled = 4;  // each makes twice the text at most
  std::vector<Pretokenizer::Step> steps;
  size_t spelled = 0;
  for_each_part(pretokenizer, "pretokenizers", [&](const JsonReader& part) {
    read_part(part, spelling, steps);
    if (steps.size() > kMaxParts) part.fail("is one pre-tokenizer too many");
    if (part.get("type").text() == "ByteLevel" && ++spelled > kMaxSpelled) part.fail("makes texts too long");
  });
  return steps;
}

bool ends_in_byte_level(const JsonReader& pretokenizer) {
  size_t count = 0;
  bool last = false;
  for_each_part(pretokenizer, "pretokenizers", [&](const JsonReader& part) {
    last = part.get("type").text() == "ByteLevel";
    count += last ? 1 : 0;
  });
  return last && count == 1;
}

}  // namespace kvasir

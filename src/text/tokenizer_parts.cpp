#include "text/tokenizer_parts.h"

#include <fmt/format.h>

#include <array>

#include "text/tokenizer_json.h"

namespace kvasir {
namespace {

constexpr int kMaxNesting = 8;
constexpr size_t kMaxSteps = 64;
constexpr size_t kMaxSurroundings = 256;

[[noreturn]] void refuse_type(const JsonRef& part, std::string_view supported) {
  part.fail(fmt::format("has the type '{}', which is not supported", part.get("type").text()),
            fmt::format("supported are {}", supported));
}

// Calls `visit` with each part of nested Sequences that is none itself. `key` is what Sequence calls its
// list.
template <class Visit>
void for_each_part(const JsonRef& part, std::string_view key, Visit visit, int nesting = 0) {
  if (part.get("type").text() != "Sequence") {
    visit(part);
    return;
  }
  if (nesting >= kMaxNesting) part.fail("nests too deeply");
  const JsonRef list = part.get(key);
  size_t index = 0;
  for (const auto value : list.array()) {
    for_each_part(list.element(value, index++), key, visit, nesting + 1);
    if (index > kMaxSteps) list.fail("has too many entries");
  }
}

bool flag_or(const JsonRef& part, std::string_view key, bool otherwise) {
  const std::optional<JsonRef> field = part.find(key);
  return field ? field->flag() : otherwise;
}

SplitBehavior behavior_from(const JsonRef& value) {
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

SplitStep read_split(const JsonRef& part) {
  const JsonRef pattern = part.get("pattern");
  const std::optional<JsonRef> regex = pattern.find("Regex");
  const std::string source = regex ? std::string(regex->text()) : quoted(pattern.get("String").text());
  const auto matches = flag_or(part, "invert", false) ? SplitStep::Matches::kRest : SplitStep::Matches::kPattern;
  return {Regex(source, part.where()), behavior_from(part.get("behavior")), matches};
}

SplitStep read_digits(const JsonRef& part) {
  const auto behavior =
      flag_or(part, "individual_digits", false) ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  return {Regex(R"(\p{N})", part.where()), behavior, SplitStep::Matches::kPattern};
}

std::vector<TokenId> template_ids(const JsonRef& processor, std::string_view name) {
  const JsonRef tokens = processor.get("special_tokens");
  const std::optional<JsonRef> entry = tokens.find(name);
  if (!entry) tokens.fail(fmt::format("has no '{}'", name));
  const JsonRef list = entry->get("ids");
  std::vector<TokenId> ids;
  for (const auto value : list.array()) {
    const JsonRef element = list.element(value, ids.size());
    const std::int64_t id = element.integer();
    if (id < 0 || id >= kMaxVocab) element.fail("is not a token id");
    ids.push_back(static_cast<TokenId>(id));
    if (ids.size() > kMaxSurroundings) list.fail("has too many entries");
  }
  return ids;
}

Surroundings read_template(const JsonRef& processor) {
  Surroundings around;
  const JsonRef single = processor.get("single");
  bool text_seen = false;
  size_t index = 0;
  for (const auto value : single.array()) {
    const JsonRef piece = single.element(value, index++);
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

std::vector<NormalizerStep> read_normalizer(const JsonRef& normalizer) {
  std::vector<NormalizerStep> forms;
  for_each_part(normalizer, "normalizers", [&](const JsonRef& part) {
    const std::string_view type = part.get("type").text();
    if (type == "NFC") {
      forms.push_back(NormalForm::kNfc);
    } else if (type == "NFD") {
      forms.push_back(NormalForm::kNfd);
    } else if (type == "NFKC") {
      forms.push_back(NormalForm::kNfkc);
    } else if (type == "NFKD") {
      forms.push_back(NormalForm::kNfkd);
    } else {
      refuse_type(part, "NFC, NFD, NFKC, NFKD and Sequence");
    }
    if (forms.size() > kMaxSteps) part.fail("is one normalizer too many");
  });
  return forms;
}

std::vector<Pretokenizer::Step> read_pretokenizer(const JsonRef& pretokenizer) {
  std::vector<Pretokenizer::Step> steps;
  bool byte_level = false;
  for_each_part(pretokenizer, "pretokenizers", [&](const JsonRef& part) {
    // ByteLevel replaces the text by stand-in characters; what comes after it would see those.
    if (byte_level) part.fail("comes after ByteLevel", "ByteLevel must be the last pre-tokenizer");
    const std::string_view type = part.get("type").text();
    if (type == "Split") {
      steps.emplace_back(read_split(part));
    } else if (type == "Digits") {
      steps.emplace_back(read_digits(part));
    } else if (type == "ByteLevel") {
      byte_level = true;
      if (flag_or(part, "add_prefix_space", true)) steps.emplace_back(PrefixSpaceStep{});
      if (flag_or(part, "use_regex", true)) steps.emplace_back(SplitStep{Regex(gpt2_pattern(), part.where())});
    } else {
      refuse_type(part, "ByteLevel, Split, Digits and Sequence");
    }
    if (steps.size() > kMaxSteps) part.fail("is one pre-tokenizer too many");
  });
  if (!byte_level) pretokenizer.fail("has no ByteLevel", "only byte-level BPE is supported");
  return steps;
}

Surroundings read_post_processor(const JsonRef& processor) {
  Surroundings all;
  for_each_part(processor, "processors", [&](const JsonRef& part) {
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

void check_decoder(const JsonRef& decoder) {
  for_each_part(decoder, "decoders", [](const JsonRef& part) {
    if (part.get("type").text() != "ByteLevel") refuse_type(part, "ByteLevel and Sequence");
  });
}

}  // namespace kvasir

#include "text/tokenizer_parts.h"

#include <fmt/format.h>

#include "text/json_parts.h"
#include "text/tokenizer_json.h"

namespace kvasir {
namespace {

constexpr size_t kMaxSurroundings = 256;

std::vector<TokenId> template_ids(const JsonReader& processor, std::string_view name) {
  const JsonReader tokens = processor.get("special_tokens");
  const JsonReader list = tokens.get(name).get("ids");
  if (list.items().size() > kMaxSurroundings) list.fail("has too many entries");
  std::vector<TokenId> ids;
  for (const JsonReader id : list.items()) ids.push_back(static_cast<TokenId>(id.integer({0, kMaxVocab - 1})));
  return ids;
}

// Of two texts, each once, as "$A:0 [SEP]:0 $B:1" says it.
std::vector<PairPart> read_pair_template(const JsonReader& processor) {
  constexpr std::int64_t kMostTypes = 64;
  std::vector<PairPart> out;
  const std::optional<JsonReader> pair = processor.find("pair");
  if (!pair) return {{PairPart::What::kFirst, -1, 0}, {PairPart::What::kSecond, -1, 1}};
  int seen = 0;  // a bit for each text
  for (const JsonReader piece : pair->items()) {
    const std::optional<JsonReader> sequence = piece.find("Sequence");
    const JsonReader named = sequence ? *sequence : piece.get("SpecialToken");
    const auto type = static_cast<TokenId>(named.find("type_id") ? named.get("type_id").integer({0, kMostTypes}) : 0);
    if (sequence) {
      const bool first = named.get("id").text() == "A";
      if (!first && named.get("id").text() != "B") piece.fail("must name the sequence A or B");
      const int bit = first ? 1 : 2;
      if ((seen & bit) != 0) piece.fail("names a sequence again");
      seen |= bit;
      out.push_back({first ? PairPart::What::kFirst : PairPart::What::kSecond, -1, type});
    } else {
      for (const TokenId id : template_ids(processor, named.get("id").text())) {
        out.push_back({PairPart::What::kToken, id, type});
      }
    }
    if (out.size() > kMaxSurroundings) pair->fail("adds too many tokens");
  }
  if (seen != 3) pair->fail("does not contain the sequences A and B");
  return out;
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
  around.pair = read_pair_template(processor);
  return around;
}

// BERT's and RoBERTa's: ["[CLS]", 101] before a text, ["[SEP]", 102] after it.
TokenId named_id(const JsonReader& part, std::string_view key) {
  const JsonReader pair = part.get(key);
  if (pair.items().size() != 2) pair.fail("is not a token and its id");
  TokenId id = -1;
  for (const JsonReader item : pair.items()) {
    if (!item.is_text()) id = static_cast<TokenId>(item.integer({0, kMaxVocab - 1}));
  }
  if (id < 0) pair.fail("is not a token and its id");
  return id;
}

Surroundings read_processor(const JsonReader& part) {
  const std::string_view type = part.get("type").text();
  if (type == "ByteLevel") return {};  // moves offsets, which are not kept here
  if (type == "TemplateProcessing") return read_template(part);
  const bool bert = type == "BertProcessing";
  if (bert || type == "RobertaProcessing") {
    const TokenId cls = named_id(part, "cls");
    const TokenId sep = named_id(part, "sep");
    return {{cls}, {sep}, separated_pair(cls, sep, bert ? Separated::kOnceTyped : Separated::kTwice)};
  }
  refuse_part(part, "BertProcessing, ByteLevel, RobertaProcessing, Sequence and TemplateProcessing");
}

}  // namespace

void refuse_part(const JsonReader& part, std::string_view supported) {
  part.fail(fmt::format("has the type '{}', which is not supported", part.get("type").text()),
            fmt::format("supported are {}", supported));
}

std::string quoted_pattern(std::string_view literal) {
  std::string out;
  for (const char c : literal) {
    if (std::string_view(R"(\^$.|?*+()[]{}-)").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::vector<PairPart> separated_pair(TokenId begin, TokenId separator, Separated how) {
  using enum PairPart::What;
  const TokenId second = how == Separated::kOnceTyped ? 1 : 0;
  std::vector<PairPart> out{{kToken, begin, 0}, {kFirst, -1, 0}, {kToken, separator, 0}};
  if (how == Separated::kTwice) out.push_back({kToken, separator, 0});
  out.push_back({kSecond, -1, second});
  out.push_back({kToken, separator, second});
  return out;
}

Surroundings read_post_processor(const JsonReader& processor) {
  Surroundings all;
  for_each_part(processor, "processors", [&](const JsonReader& part) {
    const Surroundings around = read_processor(part);
    all.before.insert(all.before.begin(), around.before.begin(), around.before.end());
    all.after.insert(all.after.end(), around.after.begin(), around.after.end());
    if (!around.pair.empty()) all.pair = around.pair;
    if (all.before.size() > kMaxSurroundings || all.after.size() > kMaxSurroundings)
      part.fail("adds too many tokens");
  });
  return all;
}

}  // namespace kvasir

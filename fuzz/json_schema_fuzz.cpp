// A schema and choices, parted by the first NUL: any schema ends in a grammar or in an Error, and whatever tokens are
// chosen among those a mask allows, the text stays on its way to valid JSON and the mask stays what trying each token
// gives.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "grammar/json_schema.h"
#include "grammar/matcher.h"
#include "grammar/token_mask.h"

namespace kvasir::grammar {
namespace {

std::shared_ptr<const Vocabulary> make_vocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* token : {"{\"",
                            "\":",
                            "\",\"",
                            "\"}",
                            "}}",
                            "[]",
                            "],",
                            "null",
                            "true",
                            "12",
                            ".5",
                            "e-",
                            "abc",
                            " a",
                            "\n  ",
                            "\\u00",
                            "\xE6\xBC",
                            "\xC3\xA9",
                            "\xF0\x9F\x99\x82",
                            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    tokens.emplace_back(token);
  }
  tokens.emplace_back();
  const auto end = static_cast<TokenId>(tokens.size() - 1);
  return std::make_shared<const Vocabulary>(std::move(tokens), std::vector<TokenId>{end});
}

void check_mask(const Vocabulary& vocabulary, const Matcher& matcher, const TokenSet& mask) {
  CHECK(!mask.empty());  // the vocabulary spells everything, and no state is a dead end
  for (TokenId id = 0; static_cast<std::size_t>(id) < vocabulary.size(); ++id) {
    const bool allowed = vocabulary.is_end(id) ? matcher.complete() : matcher.can_accept(vocabulary.bytes_of(id));
    CHECK(mask.contains(id) == allowed);
  }
}

void run(std::string_view schema, std::string_view choices) {
  const auto vocabulary = make_vocabulary();
  TokenMasker masker(vocabulary, {.cached_masks = 8, .work = 1 << 20});
  try {
    Matcher matcher(compile_json_schema(schema));
    std::string text;
    for (const char choice : choices.substr(0, 64)) {
      const auto mask = masker.mask(matcher);
      check_mask(*vocabulary, matcher, *mask);
      auto left = static_cast<std::size_t>(static_cast<std::uint8_t>(choice)) % mask->count();
      TokenId token = 0;
      while (!mask->contains(token) || left-- > 0) ++token;
      if (vocabulary->is_end(token)) break;
      text += vocabulary->bytes_of(token);
      CHECK(matcher.accept(vocabulary->bytes_of(token)));
    }
    if (matcher.complete()) CHECK(nlohmann::json::accept(text));
  } catch (const Error&) {
    // The right answer to a schema that is wrong, unsupported or too large.
  }
}

}  // namespace
}  // namespace kvasir::grammar

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t nul = all.find('\0');
  kvasir::grammar::run(all.substr(0, nul), nul == std::string_view::npos ? "" : all.substr(nul + 1));
  return 0;
}

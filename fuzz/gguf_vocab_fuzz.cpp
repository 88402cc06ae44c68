// Any vocabulary a GGUF file could hold: it is refused with an Error, or it gives a tokenizer that takes any text.
//
// The input is six fields parted by NULs: model, pre-tokenizer, numbers (a digit each, from '0' on: flags, bos, eos,
// unknown, separator, more flags), tokens, merges and the text. Tokens and merges are parted by newlines; a token's
// first two bytes are its type and its score.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/gguf_vocab.h"
#include "use_tokenizer.h"

namespace kvasir {
namespace {

// What comes before the separator; the rest stays.
std::string_view take(std::string_view& rest, char separator) {
  const std::string_view part = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  return part;
}

GgufVocab vocab_of(std::string_view& input) {
  GgufVocab vocab;
  vocab.where = "fuzz";
  vocab.model = take(input, '\0');
  vocab.pre = take(input, '\0');
  const std::string_view numbers = take(input, '\0');
  const auto number = [&](size_t i) { return i < numbers.size() ? numbers[i] - '0' : 0; };
  if ((number(0) & 1) != 0) vocab.bos_token_id = number(1);
  if ((number(0) & 2) != 0) vocab.eos_token_id = number(2);
  if ((number(0) & 4) != 0) vocab.unknown_token_id = number(3);
  if ((number(0) & 8) != 0) vocab.add_bos_token = vocab.add_eos_token = true;
  if ((number(0) & 16) != 0) vocab.add_space_prefix = false;
  if ((number(0) & 32) != 0) vocab.name = "phi-3";
  if (numbers.size() > 4) vocab.seperator_token_id = number(4);
  if ((number(5) & 1) != 0) vocab.remove_extra_whitespaces = true;
  if ((number(5) & 2) != 0) vocab.lowercase = false;
  if ((number(5) & 4) != 0) vocab.strip_accents = true;
  if ((number(5) & 8) != 0) vocab.precompiled_charsmap = input.substr(0, 64);
  for (std::string_view tokens = take(input, '\0'); !tokens.empty();) {
    const std::string_view token = take(tokens, '\n');
    vocab.token_type.push_back(token.empty() ? 0 : token[0] - '0');
    vocab.scores.push_back(token.size() < 2 ? 0 : static_cast<float>(token[1]));
    vocab.tokens.emplace_back(token.substr(std::min<size_t>(2, token.size())));
  }
  for (std::string_view merges = take(input, '\0'); !merges.empty();) vocab.merges.emplace_back(take(merges, '\n'));
  return vocab;
}

void run(std::string_view input) {
  const GgufVocab vocab = vocab_of(input);
  try {
    use_tokenizer(make_tokenizer(vocab), input);
  } catch (const Error&) {
    // The right answer to a damaged vocabulary.
  }
}

}  // namespace
}  // namespace kvasir

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvasir::run({reinterpret_cast<const char*>(data), size});
  return 0;
}

// The pre-tokenizers that are no patterns.
#include <unicode/uscript.h>

#include "base/error.h"
#include "text/byte_level.h"
#include "text/pretokenizer.h"
#include "text/utf8.h"

namespace kvasir {
namespace {

// Goes with any script.
constexpr UScriptCode kAny = USCRIPT_INVALID_CODE;

UScriptCode script_of(char32_t code) {
  constexpr char32_t kLongVowelMark = 0x30FC;
  if (code == kLongVowelMark) return USCRIPT_HAN;
  if (code == ' ') return kAny;
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(static_cast<UChar32>(code), &status);
  if (U_FAILURE(status) || script == USCRIPT_UNKNOWN) return kAny;
  return script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ? USCRIPT_HAN : script;
}

void cut_at_scripts(TextRange word, std::string_view text, std::vector<Words::Word>& out) {
  UScriptCode last = kAny;
  bool open = false;
  for (size_t at = word.begin; at < word.end;) {
    const Utf8Char c = utf8_at(text, at);
    const UScriptCode script = script_of(c.code);
    if (script != kAny && (!open || script != last)) {
      if (open) out.back().range.end = at;
      out.push_back({{at, word.end}, true});
      open = true;
    }
    if (script != kAny) last = script;
    at += static_cast<size_t>(c.size);
  }
}

}  // namespace

void apply(const UnicodeScriptsStep&, TextPlace, Words& all) {
  std::vector<Words::Word> out;
  for (const Words::Word& word : all.words) {
    if (word.valid) {
      cut_at_scripts(word.range, all.text, out);
    } else {
      out.push_back(word);
    }
  }
  all.words = std::move(out);
}

void apply(const WordPrefixStep& step, TextPlace, Words& all) {
  Words out;
  out.text.reserve(all.text.size() + all.words.size() * step.text.size());
  for (size_t i = 0; i < all.words.size(); ++i) {
    const size_t begin = out.text.size();
    out.text += step.text;
    out.text += all[i];
    out.words.push_back({{begin, out.text.size()}, all.words[i].valid});
  }
  all = std::move(out);
}

void apply(const SpellWordsStep&, TextPlace, Words& all) {
  Words out;
  out.text.reserve(all.text.size() * 2);
  for (size_t i = 0; i < all.words.size(); ++i) {
    const size_t begin = out.text.size();
    out.text += spell_bytes(all[i]);
    out.words.push_back({{begin, out.text.size()}, true});
  }
  all = std::move(out);
}

}  // namespace kvasir

#include "text/char_class.h"

#include <unicode/uchar.h>

#include <cstdint>

namespace kvasir {
namespace {

bool in_category(char32_t code, std::uint32_t mask) {
  return (U_GET_GC_MASK(static_cast<UChar32>(code)) & mask) != 0;
}

}  // namespace

bool is_white_space(char32_t code) { return u_isUWhiteSpace(static_cast<UChar32>(code)); }

bool is_word_char(char32_t code) {
  const auto c = static_cast<UChar32>(code);
  return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) || in_category(code, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL);
}

bool is_mark(char32_t code) { return in_category(code, U_GC_M_MASK); }
bool is_nonspacing_mark(char32_t code) { return in_category(code, U_GC_MN_MASK); }

bool is_chinese(char32_t code) {
  const auto in = [code](char32_t first, char32_t last) { return code >= first && code <= last; };
  // The sixth range begins at 2B820 in Unicode, and here in BERT's library.
  return in(0x4E00, 0x9FFF) || in(0x3400, 0x4DBF) || in(0x20000, 0x2A6DF) || in(0x2A700, 0x2B73F) ||
         in(0x2B740, 0x2B81F) || in(0x2B920, 0x2CEAF) || in(0xF900, 0xFAFF) || in(0x2F800, 0x2FA1F);
}

bool is_bert_control(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  return in_category(code, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK | U_GC_CS_MASK);
}

}  // namespace kvasir

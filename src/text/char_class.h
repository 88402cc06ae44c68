// What a character is, in the words of the libraries that tokenizers were made with.
#pragma once

namespace kvasir {

bool is_white_space(char32_t code);  // Unicode's White_Space: Rust's char::is_whitespace
bool is_word_char(char32_t code);    // \w of Rust's regex library
bool is_mark(char32_t code);         // a combining mark of any kind
bool is_nonspacing_mark(char32_t code);
bool is_chinese(char32_t code);  // as BERT has it: also much of Japanese

// A control or format character, or one that is not for public use, in the Unicode of the time that BERT's library
// stands still at; not tab, line feed and carriage return.
bool is_bert_control(char32_t code);

}  // namespace kvasir

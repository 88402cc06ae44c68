// Fixtures of encoders with a tokenizer of a few words, as folders that a server loads.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "kvasir/kvasir.h"
#include "support/fixtures.h"

namespace kvasir::testing {

inline constexpr const char* kEncoderWords = R"("the":4,"fox":5,"crow":6,"saw":7,"a":8,"##s":9,"cheese":10)";

class EncoderDir {
 public:
  EncoderDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvasir-embeddings-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~EncoderDir() { std::filesystem::remove_all(path_); }
  EncoderDir(const EncoderDir&) = delete;
  EncoderDir& operator=(const EncoderDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A folder with a fixture's weights and a tokenizer of a few words.
inline std::filesystem::path with_tokenizer(const EncoderDir& to, const std::string& fixture) {
  const std::filesystem::path folder = to.path() / fixture;
  std::filesystem::copy(golden_dir(fixture), folder, std::filesystem::copy_options::recursive);
  std::ofstream(folder / "tokenizer.json") << R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[
    {"id":0,"content":"[PAD]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
    {"id":1,"content":"[UNK]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
    {"id":2,"content":"[CLS]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
    {"id":3,"content":"[SEP]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
    "normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,
    "lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},
    "post_processor":{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]},
    "decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
    "model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
    "vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,)"
                                           << kEncoderWords << "}}}";
  return folder;
}

inline LlmOptions encoder_options(const std::filesystem::path& folder) {
  LlmOptions options;
  options.model = folder.string();
  options.threads = 1;
  return options;
}

}  // namespace kvasir::testing

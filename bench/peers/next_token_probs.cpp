// What a model thinks comes next after every token of a text, all of it: for comparing with other engines.
//
//     next_token_probs MODEL DEVICE ACTIVATIONS < text
//
// Writes int32 numbers (the count of tokens, the size of the vocabulary, the tokens), then float32 probabilities,
// [tokens][vocabulary]. The cache is in f32.
#include <cmath>
#include <cstdio>
#include <iostream>
#include <iterator>

#include "api/gguf_tokenizer.h"
#include "backend/make_backend.h"
#include "support/forward.h"

namespace {

using namespace kvasir;

template <class T>
void put(const std::vector<T>& values) {
  std::fwrite(values.data(), sizeof(T), values.size(), stdout);
}

void softmax(float* row, int count) {
  double top = row[0];
  for (int i = 1; i < count; ++i) top = std::max(top, static_cast<double>(row[i]));
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += std::exp(static_cast<double>(row[i]) - top);
  for (int i = 0; i < count; ++i) row[i] = static_cast<float>(std::exp(static_cast<double>(row[i]) - top) / sum);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: next_token_probs MODEL DEVICE ACTIVATIONS < text\n", stderr);
    return 2;
  }
  try {
    const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    const auto tokens = load_tokenizer(argv[1]).encode_document(text, Tokenizer::Specials::kPlain);
    const auto backend = make_backend({argv[2], 2, "auto", parse_activation_precision(argv[3])});
    constexpr std::int64_t kContext = 512;  // the peer's, which decides for some ropes
    LoadOptions options;
    options.max_rows = static_cast<int>(tokens.size());
    options.context = kContext;
    const auto model = load_model(argv[1], *backend, options);
    const int vocab = model->config().vocab;
    std::vector<float> rows = kvasir::testing::forward(*model, *backend, tokens);
    for (size_t r = 0; r < tokens.size(); ++r) softmax(rows.data() + r * static_cast<size_t>(vocab), vocab);
    put(std::vector<std::int32_t>{static_cast<std::int32_t>(tokens.size()), vocab});
    put(tokens);
    put(rows);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "next_token_probs: %s\n", error.what());
    return 1;
  }
}

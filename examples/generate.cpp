// generate MODEL PROMPT: continues a text, piece by piece.
#include <cstdio>
#include <iostream>
#include <string>

#include "kvasir/kvasir.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: generate MODEL PROMPT\n";
    return 2;
  }
  try {
    kvasir::LlmOptions options;
    options.model = argv[1];
    kvasir::Llm llm(options);

    kvasir::GenerateOptions generate;
    generate.max_tokens = 48;
    generate.temperature = 0;
    const kvasir::Answer answer = llm.generate(argv[2], generate, [](std::string_view piece) {
      std::cout << piece << std::flush;
      return kvasir::Llm::Next::kContinue;
    });
    std::cout << "\n\n" << answer.tokens.size() << " tokens in " << answer.total_seconds << " s\n";
    return 0;
  } catch (const kvasir::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

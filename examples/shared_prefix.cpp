// shared_prefix MODEL: several questions about one text, in one batch. The text is computed once; every answer says
// what was reused of it, and why not more.
#include <iostream>
#include <string>
#include <vector>

#include "kvasir/kvasir.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: shared_prefix MODEL\n";
    return 2;
  }
  try {
    kvasir::LlmOptions options;
    options.model = argv[1];
    kvasir::Llm llm(options);

    const std::string text =
        "There was once a miller who had three sons. When he died he left them nothing but his mill, his donkey and "
        "his "
        "cat. The eldest took the mill, the second took the donkey, and the youngest had to be content with the "
        "cat. ";
    kvasir::GenerateOptions generate;
    generate.max_tokens = 24;
    generate.temperature = 0;
    llm.generate(text, generate);  // caches the text

    const std::vector<std::string> prompts{text + "The eldest", text + "The donkey",
                                           text + "\"Do not be sad,\" said the cat"};
    for (const kvasir::Answer& answer : llm.generate_all(prompts, generate)) {
      std::cout << answer.text << "\n  -- " << answer.reuse << "\n\n";
    }
    const kvasir::CacheInfo cache = llm.cache();
    std::cout << cache.hit_tokens << " of " << cache.queried_tokens << " prompt tokens were reused\n";
    return 0;
  } catch (const kvasir::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

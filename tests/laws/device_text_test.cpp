// The shipped model tells the same stories on every kind of device, with nothing rounded to fewer bits than float32.
#include <array>

#include "laws/harness.h"
#include "text/tokenizer.h"

namespace kvasir::testing {
namespace {

struct Device {
  std::string name;
  size_t prompts;  // of those below
  std::int64_t tokens;
};

std::vector<Device> other_devices() {
  std::vector<Device> out{{"far", 2, 20}};
  if (!cuda_devices().empty()) out.push_back({"cuda:0", 20, 200});
  return out;
}

class DeviceText : public ::testing::TestWithParam<Device> {};

INSTANTIATE_TEST_SUITE_P(Everywhere, DeviceText, ::testing::ValuesIn(other_devices()),
                         [](const auto& device) { return device.param.name.substr(0, device.param.name.find(':')); });

constexpr std::array kPrompts{"Once upon a time",
                              "One day, a little girl named Lily",
                              "The cat sat on the",
                              "Tom had a big red ball.",
                              "It was raining and",
                              "In the forest there lived a",
                              "Mom said, \"",
                              "The dog was very",
                              "Ben and Mia went to the park.",
                              "A bird flew",
                              "\"Can I play with you?\" asked",
                              "The old man",
                              "There was a boat on the lake.",
                              "Sam did not want to share his",
                              "At night the moon",
                              "The fox saw a rabbit and",
                              "Anna found a shiny stone",
                              "They were happy because",
                              "A bear came to the house",
                              "The train went"};

TEST_P(DeviceText, IsTheCpus) {
  const std::filesystem::path folder = source_dir() / "models/tales";
  const Tokenizer tokenizer = Tokenizer::load(folder);
  std::vector<std::vector<std::vector<TokenId>>> answers;
  for (const std::string& device : {std::string("cpu"), GetParam().name}) {
    Cell cell;
    cell.device = device;
    cell.isa = "auto";
    cell.threads = 2;
    cell.activations = ActivationPrecision::kF32;
    const auto backend = backend_of(cell);
    const auto model = load_model(folder, *backend, {512, {}});
    EngineConfig config;
    config.kv = uniform_policy(KvFormat::kF32);
    Engine engine(*backend, *model, config);
    answers.emplace_back(GetParam().prompts);
    for (size_t i = 0; i < GetParam().prompts; ++i) {
      Request request;
      request.prompt = tokenizer.as_document(tokenizer.encode(kPrompts[i], Tokenizer::Specials::kPlain));
      request.max_tokens = GetParam().tokens;
      request.sampling.temperature = 0;
      engine.submit(std::move(request), [&answer = answers.back()[i]](const Update& update) {
        if (update.token >= 0) answer.push_back(update.token);
      });
    }
    engine.run();
  }
  for (size_t i = 0; i < GetParam().prompts; ++i) {
    EXPECT_GE(answers[0][i].size(), 5U) << kPrompts[i];
    EXPECT_EQ(answers[1][i], answers[0][i]) << kPrompts[i];
  }
}

}  // namespace
}  // namespace kvasir::testing

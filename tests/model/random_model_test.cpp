#include "model/random_model.h"

#include <gtest/gtest.h>

#include "backend/make_backend.h"
#include "base/error.h"
#include "engine/engine.h"
#include "model/known_models.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

class RandomModelTest : public ::testing::Test {
 protected:
  ~RandomModelTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("kvasir_random_" + std::to_string(::getpid()));
};

TEST_F(RandomModelTest, CanBeLoadedAndHasTheParametersOfItsShape) {
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    std::filesystem::remove_all(folder_);
    const ModelSpec shape =
        parse_shape(std::string("layers=2,hidden=32,ffn=48,heads=4,kv_heads=2,vocab=50,tied=0,dtype=") + dtype);
    write_random_model(shape, folder_, {});
    const auto backend = make_backend({});
    const auto model = load_model(folder_, *backend, {16, {}});
    EXPECT_EQ(model->weight_bytes(), parameter_count(shape) * block_bytes(shape.dtype));
    Engine engine(*backend, *model, {});
    Request request;
    request.prompt = {1, 2, 3};
    request.max_tokens = 4;
    int tokens = 0;
    engine.submit(request, [&tokens](const Update& update) { tokens += update.token >= 0; });
    engine.run();
    EXPECT_EQ(tokens, 4);
  }
}

// The same model with and without a file: the same answers, from other memory.
TEST_F(RandomModelTest, NeedsNoFile) {
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    std::filesystem::remove_all(folder_);
    const ModelSpec shape =
        parse_shape(std::string("layers=2,hidden=64,ffn=1200,heads=4,kv_heads=2,vocab=300,tied=0,dtype=") + dtype);
    RandomModelOptions options;
    options.seed = 5;
    write_random_model(shape, folder_, options);
    const auto backend = make_backend({});
    const auto answer = [&](Model& model) {
      Engine engine(*backend, model, {});
      Request request;
      request.prompt = {1, 2, 3};
      request.max_tokens = 20;
      std::vector<float> all;
      engine.observe([&all](RequestId, Position, std::span<const float> logits) {
        all.insert(all.end(), logits.begin(), logits.end());
      });
      engine.submit(request, {});
      engine.run();
      return all;
    };
    const auto file = load_model(folder_, *backend, {16, {}});
    const auto made = make_random_model(load_config(folder_), *backend, {16, {}}, 5);
    EXPECT_EQ(made->weight_bytes(), file->weight_bytes());
    EXPECT_EQ(answer(*made), answer(*file)) << dtype;
    const auto other = make_random_model(load_config(folder_), *backend, {16, {}}, 6);
    EXPECT_NE(answer(*other), answer(*file)) << dtype;
    EXPECT_NE(other->fingerprint(), made->fingerprint());
  }
}

TEST_F(RandomModelTest, NeverOverwritesAModel) {
  const ModelSpec shape = parse_shape("layers=1,hidden=16,ffn=16,heads=2,vocab=20");
  write_random_model(shape, folder_, {});
  EXPECT_THROW(write_random_model(shape, folder_, {}), Error);
}

}  // namespace
}  // namespace kvasir::testing

#include "backend/make_backend.h"

#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.h"
#include "base/error.h"

namespace kvasir {
namespace {

std::string error_of(const std::string& device) {
  try {
    make_backend({device, 1, "auto"});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MakeBackend, AutoIsTheFirstGpuOrTheCpu) {
  const std::string chosen = device_named("auto");
  EXPECT_EQ(chosen, cuda_devices().empty() ? "cpu" : "cuda:0");
  EXPECT_EQ(make_backend({"auto", 1, "auto"})->description(), make_backend({chosen, 1, "auto"})->description());
  EXPECT_EQ(device_named("cuda"), "cuda:0");
  EXPECT_EQ(device_named("ref"), "ref");
}

TEST(MakeBackend, StepsOfAGpuHaveMoreTokensUnlessAskedForOthers) {
  EXPECT_EQ(batch_tokens(0, "cpu"), 512);
  EXPECT_EQ(batch_tokens(0, "ref"), 512);
  EXPECT_EQ(batch_tokens(0, "cuda"), 2048);
  EXPECT_EQ(batch_tokens(0, "cuda:1"), 2048);
  EXPECT_EQ(batch_tokens(7, "cuda:1"), 7);
  EXPECT_EQ(batch_tokens(0, "auto"), batch_tokens(0, device_named("auto")));
}

TEST(MakeBackend, WhatIsNoDeviceIsSaid) {
  for (const char* name : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999", "cuda: 0"}) {
    EXPECT_NE(error_of(name).find("number of a GPU"), std::string::npos) << name << ": " << error_of(name);
  }
  for (const char* name : {"tpu", "", "CPU", "cuda0"}) {
    EXPECT_NE(error_of(name).find("is not a device"), std::string::npos) << name << ": " << error_of(name);
  }
}

TEST(MakeBackend, AGpuThatIsNotThereIsSaid) {
  const std::string error = error_of("cuda:4321");
  EXPECT_NE(error.find("cuda"), std::string::npos) << error;
  if (cuda_devices().empty()) {
    EXPECT_NE(error.find("--device cpu"), std::string::npos) << error;  // what to do
  } else {
    EXPECT_NE(error.find("cuda:0 (" + cuda_devices().front()), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace kvasir

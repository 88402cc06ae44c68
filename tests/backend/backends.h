// The cpu backend in every form this machine has, to be held against ref.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/ref/ref_backend.h"
#include "support/random_data.h"

namespace kvasir::testing {

struct Form {
  Isa isa;
  int threads;
};

inline std::vector<Form> all_forms() {
  std::vector<Form> out;
  for (const Isa isa : available_isas()) {
    for (const int threads : {1, 2}) out.push_back({isa, threads});
  }
  return out;
}

inline std::string form_name(const ::testing::TestParamInfo<Form>& form) {
  return std::string(name_of(form.param.isa)) + "_t" + std::to_string(form.param.threads);
}

// Ops over all of a machine's forms, which must agree to the bit.
inline std::vector<std::unique_ptr<Backend>> all_backends(Activations activations) {
  std::vector<std::unique_ptr<Backend>> out;
  for (const Form& form : all_forms()) out.push_back(make_cpu_backend(form.threads, form.isa, activations));
  return out;
}

class OpTest : public ::testing::TestWithParam<Form> {
 protected:
  std::unique_ptr<Backend> ref_ = make_ref_backend();
  std::unique_ptr<Backend> cpu_ = make_cpu_backend(GetParam().threads, GetParam().isa);
};

}  // namespace kvasir::testing

// Every backend of this machine, in every form, to be held against ref.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/ref/ref_backend.h"
#include "layout/codec.h"
#include "layout/kv_policy.h"
#include "support/far_backend.h"
#include "support/random_data.h"
#include "support/staged_backend.h"

namespace kvasir::testing {

struct Form {
  enum class Device : std::uint8_t {
    kCpu,
    kFar,  // the cpu, with memory that only its ops may touch
    kCuda,
  };
  Isa isa;
  int threads;
  Device device = Device::kCpu;
};

inline bool on_gpu(const Form& form) { return form.device == Form::Device::kCuda; }

inline std::vector<Form> all_cpu_forms() {
  std::vector<Form> out;
  for (const Isa isa : available_isas()) {
    for (const int threads : {1, 2}) out.push_back({isa, threads});
  }
  return out;
}

inline std::vector<Form> all_forms() {
  std::vector<Form> out = all_cpu_forms();
  out.push_back({available_isas().back(), 2, Form::Device::kFar});
  if (!cuda_devices().empty()) out.push_back({Isa::kScalar, 1, Form::Device::kCuda});
  return out;
}

// For what only a GPU has a way of its own to do: none where there is no GPU, and tests over them are not there
// either.
inline std::vector<Form> gpu_forms() {
  std::vector<Form> out = all_forms();
  std::erase_if(out, [](const Form& form) { return !on_gpu(form); });
  return out;
}

inline std::string form_name(const ::testing::TestParamInfo<Form>& form) {
  if (form.param.device == Form::Device::kFar) return "far";
  if (on_gpu(form.param)) return "cuda";
  return std::string(name_of(form.param.isa)) + "_t" + std::to_string(form.param.threads);
}

// With a memory of its own, as an engine has it.
inline std::unique_ptr<Backend> make_plain(const Form& form,
                                           ActivationPrecision activations = ActivationPrecision::kAsWeights) {
  if (on_gpu(form)) return make_cuda_backend(0, activations);
  auto cpu = make_cpu_backend(form.threads, form.isa, activations);
  if (form.device == Form::Device::kCpu) return cpu;
  return std::make_unique<FarBackend>(std::move(cpu));
}

// Whose ops take rows in the host's memory, as ref's do.
inline std::unique_ptr<Backend> make_form(const Form& form,
                                          ActivationPrecision activations = ActivationPrecision::kAsWeights) {
  auto plain = make_plain(form, activations);
  if (form.device == Form::Device::kCpu) return plain;
  return std::make_unique<StagedBackend>(std::move(plain));
}

// Ops over all forms of the cpu, which must agree to the bit.
inline std::vector<std::unique_ptr<Backend>> all_backends(ActivationPrecision activations) {
  std::vector<std::unique_ptr<Backend>> out;
  for (const Form& form : all_cpu_forms()) out.push_back(make_form(form, activations));
  return out;
}

// How far attention may be from ref. On the cpu all differs by what floats differ from doubles, but that weights of
// packed values have 14 bits. Tensor cores take queries and weights in 11 bits or, beside bf16 and what is decoded to
// it, 8; nothing but float32 where K and V are.
inline double attention_tolerance(const Form& form, const KvPolicy& formats) {
  if (!on_gpu(form)) return is_packed(formats.v_format) ? 3e-4 : 5e-6;
  const auto plain = [&](KvFormat format) { return formats.k_format == format && formats.v_format == format; };
  if (plain(KvFormat::kF32)) return 1e-5;
  return plain(KvFormat::kF16) ? 3e-3 : 2e-2;
}

// Products on a GPU round rows to f16 beside f16 and quantized weights, which are held against rows that are not
// rounded.
inline double matmul_tolerance(const Form& form, DType weights) {
  if (!on_gpu(form)) return is_quantized(weights) ? 4e-6 : 2e-6;
  if (weights == DType::kF32) return 5e-6;
  if (weights == DType::kMXFP4) return 5e-3;  // rows are rounded to bf16 beside it, and the exact ones are not
  return weights == DType::kBF16 ? 5e-5 : 2e-3;
}

class OpTest : public ::testing::TestWithParam<Form> {
 protected:
  // What a product with these weights is compared with.
  Backend& ref_for(DType weights) { return on_gpu(GetParam()) && is_quantized(weights) ? *exact_ref_ : *ref_; }

  std::unique_ptr<Backend> ref_ = make_ref_backend();
  std::unique_ptr<Backend> exact_ref_ = make_ref_backend(ActivationPrecision::kF32);
  std::unique_ptr<Backend> tested_ = make_form(GetParam());
};

}  // namespace kvasir::testing

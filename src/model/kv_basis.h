// Shorter rows of K and V: for each layer and KV head, in which directions they say most. Calibrated once from text
// (`kvasir tune --rank`), kept in a file beside the model, and cut to any length.
//
// The file is a safetensors file of five tensors:
//
//     model      U8  [32]                           the stored fingerprint of the model that it was made for
//     keys       F32 [layers][kv_heads][dim][dim]   k becomes k M, of which the first columns say most
//     queries    F32 [layers][kv_heads][dim][dim]   q becomes q M, so that products of the two stay what they were
//     values     F32 [layers][kv_heads][dim][dim]   orthonormal columns: v becomes v M, and outputs o M^T
//     channels   I32 [layers][kv_heads][dim]        the channels of K, the most telling first
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "model/spec.h"

namespace kvasir {

inline constexpr const char* kKvBasisFile = "kv-basis.safetensors";  // in the model's folder

struct KvBasis {
  // Of one layer.
  struct Layer {
    std::vector<float> keys;             // [kv_heads][dim][dim]
    std::vector<float> queries;          // [kv_heads][dim][dim]
    std::vector<float> values;           // [kv_heads][dim][dim]
    std::vector<std::int32_t> channels;  // [kv_heads][dim]

    friend bool operator==(const Layer&, const Layer&) = default;
  };

  int kv_heads = 0;
  int dim = 0;
  std::vector<Layer> layers;
  Key256 name;  // of the file's bytes; set by those who read it
};

// The bytes of a file, always the same for the same basis.
std::vector<std::byte> kv_basis_bytes(const KvBasis& basis, const Key256& model);

// Throws Error when the bytes are no basis of a model of this shape and fingerprint. What is returned has finite
// numbers and channels that are each there once.
KvBasis parse_kv_basis(std::span<const std::byte> file, const ModelSpec& spec, const Key256& model,
                       const std::string& where);

KvBasis load_kv_basis(const std::filesystem::path& file, const ModelSpec& spec, const Key256& model);

// `given`, or, where that is empty, kKvBasisFile in the model's folder if it is there, or nothing.
std::filesystem::path find_kv_basis(const std::filesystem::path& given, const std::filesystem::path& model);

}  // namespace kvasir

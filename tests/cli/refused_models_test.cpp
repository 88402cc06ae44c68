// Every reason to refuse a config.json, a safetensors file, its index or a GGUF file, with the whole program.
#include <cstdint>
#include <cstring>

#include "refused.h"

namespace kvasir::testing {
namespace {

class RefusedModels : public RefusedTest {
 protected:
  // A safetensors file with this header, and as many bytes of zeros behind it.
  static std::string safetensors(const std::string& header, size_t data) {
    const std::uint64_t size = header.size();
    std::string out(sizeof size, '\0');
    std::memcpy(out.data(), &size, sizeof size);
    return out + header + std::string(data, '\0');
  }
};

TEST_F(RefusedModels, Configs) {
  static constexpr JsonChange kChanges[] = {
      {"/model_type", nullptr, "model_type is missing"},
      {"/model_type", R"("mamba")", "model_type 'mamba' is not known"},
      {"/model_type", R"("gpt2")", "n_layer is missing"},
      {"/model_type", R"("gpt2")", "n_layer is missing"},
      {"/model_type", R"("qwen2")", "tensor 'model.layers.0.self_attn.q_proj.bias' is missing"},
      {"/num_hidden_layers", nullptr, "num_hidden_layers is missing"},
      {"/num_hidden_layers", "0", "num_hidden_layers is 0, outside 1..4096"},
      {"/num_hidden_layers", "2.5", "num_hidden_layers is not an integer"},
      {"/num_hidden_layers", "3", "tensor 'model.layers.2."},
      {"/hidden_size", "256", "and the config calls for"},
      {"/hidden_size", "9223372036854775807", "hidden_size is 9223372036854775807, outside"},
      {"/num_key_value_heads", "2", "2 KV heads do not divide 3 heads"},
      {"/head_dim", "63", "the head size 63 is odd"},
      {"/vocab_size", R"("many")", "vocab_size is not an integer"},
      {"/rms_norm_eps", "-1", "rms_norm_eps is -1, and must be positive"},
      {"/rope_parameters", "[]", "rope_parameters is not an object"},
      {"/rope_parameters/rope_theta", "0", "rope_parameters.rope_theta is 0"},
      {"/rope_parameters/rope_type", R"("longrope")", "rope_parameters: long_factor is missing"},
      {"/rope_parameters/rope_type", R"("llama3")", "rope_parameters: factor is missing"},
      {"/partial_rotary_factor", "1.5", "partial_rotary_factor is 1.5, above 1"},
      {"/hidden_act", R"("gelu")", "hidden_act 'gelu' is not supported"},
      {"/hidden_act", R"("quick_gelu")", "hidden_act 'quick_gelu' is not supported"},
      {"/num_attention_heads", "71", "and the config calls for [4544, 192]"},
      {"/head_dim", "16386", "head_dim is 16386, outside 1..16384"},
      {"/dtype", R"("float8")", "dtype 'float8' is not supported"},
      {"/quantization_config", R"({"quant_method":"hqq"})",
       "quantization_config.quant_method 'hqq' is not supported"},
      {"/quantization_config", R"({"quant_method":"awq","bits":3})", "quantization_config: bits 3 is not supported"},
      {"/quantization_config", R"({"quant_method":"fp8","fmt":"e5m2"})", "fmt 'e5m2' is not supported"},
      {"/tie_word_embeddings", "false", "tensor 'lm_head.weight' is missing"},
      {"/attention_bias", "1", "attention_bias is not true or false"},
      {"/bos_token_id", "[]", "bos_token_id is not an integer"},
      {"/eos_token_id/1", "8192", "eos_token_id[1] is 8192, outside 0..8191"},
      {"/text_config", "3", "text_config is not an object"}};
  const Json config = shipped("config.json");
  expect_changes_refused("config.json", config, kChanges);
  for (const char* content : {"", "{", "7", "\xff"}) expect_file_refused("config.json", content, "config.json");
  expect_file_refused("generation_config.json", R"({"eos_token_id":"x"})", "eos_token_id is not an integer");
  expect_file_refused("generation_config.json", "[", "generation_config.json: not valid JSON");

  // Nothing reads it: a number that is no token's is as good as none.
  const std::string other = changed(config, {"/bos_token_id", "4000000", ""}).dump();
  EXPECT_EQ(run("run -p x -n 1 -q -m " + model_with("config.json", other)).code, 0);
}

// Shapes far from the usual, with the shipped model's tokenizer: they run, or one line says why not.
TEST_F(RefusedModels, UnusualShapesRun) {
  for (const auto& [name, heads] :
       {std::pair{"many", "heads=71,kv_heads=1,head_dim=8"}, std::pair{"wide", "heads=2,kv_heads=1,head_dim=512"},
        std::pair{"widest", "heads=1,kv_heads=1,head_dim=2048"}}) {
    SCOPED_TRACE(name);
    const auto folder = folder_ / name;
    const Ran made =
        run("synth --shape layers=2,hidden=64,ffn=96,vocab=8192," + std::string(heads) + " --out " + folder.string());
    ASSERT_EQ(made.code, 0) << made.err;
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
      std::filesystem::create_symlink(std::filesystem::path(kModel) / file, folder / file);
    }
    const std::string say = "run -q -p x -n 4 --device cpu -m " + folder.string();
    for (const char* kv : {"f16", "fp8", "int8"}) {
      if (name == std::string("widest") && kv == std::string("int8")) {
        expect_refused(say + " --kv int8", 2, "heads of 2048 numbers cannot be kept as int8: 1024 is the most");
        continue;
      }
      const Ran ran = run(say + " --kv " + kv);
      EXPECT_EQ(ran.code, 0) << kv << ": " << ran.err;
      EXPECT_NE(ran.out, "");
    }
  }
}

TEST_F(RefusedModels, Safetensors) {
  for (const auto& [content, says] : std::vector<std::pair<std::string, std::string>>{
           {"", "the file is empty"},
           {"abc", "shorter than a safetensors header"},
           {std::string(16, '\xff'), "the header claims"},
           {safetensors("{", 0), "the header is not a JSON object"},
           {safetensors("[]", 0), "the header is not a JSON object"},
           {safetensors("{}", 0), "is missing"},
           {safetensors(R"({"t":3})", 0), "tensor 't' has no dtype"},
           {safetensors(R"({"t":{"dtype":"F32"}})", 0), "has no list shape"},
           {safetensors(R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), "a shape that is no size"},
           {safetensors(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4), "outside the file"},
           {safetensors(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4), "outside the file"},
           {safetensors(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8), "takes 8 bytes where F32"},
           {safetensors(R"({"t":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
            "impossible shape"},
           {safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
              "b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                        8),
            "overlaps 'a'"},
           {safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
              "a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                        8),
            "is there twice"}}) {
    expect_file_refused("model.safetensors", content, says);
  }
  std::string other = read(std::filesystem::path(kModel) / "model.safetensors");
  other.replace(other.find("\"BF16\""), 6, "\"I16\" ");
  expect_file_refused("model.safetensors", other, "has type I16");
}

TEST_F(RefusedModels, IndexesOfShards) {
  for (const auto& [content, says] : std::vector<std::pair<std::string, std::string>>{
           {"{", "model.safetensors.index.json: not valid JSON"},
           {"{}", "weight_map is missing"},
           {R"({"weight_map":[]})", "weight_map is not an object"},
           {R"({"weight_map":{}})", "weight_map names no file"},
           {R"({"weight_map":{"t":7}})", "weight_map.t is not a string"},
           {R"({"weight_map":{"t":"../x"}})", "which is not the name of a file beside the index"},
           {R"({"weight_map":{"t":""}})", "which is not the name of a file beside the index"},
           {R"({"weight_map":{"t":"none.safetensors"}})", "none.safetensors"}}) {
    expect_file_refused("model.safetensors.index.json", content, says);
  }
}

// A GGUF file of the shipped model, with some bytes changed.
class RefusedGguf : public RefusedModels {
 protected:
  RefusedGguf() {
    const std::string whole = (folder_ / "whole.gguf").string();
    EXPECT_EQ(run("convert -m " + std::string(kModel) + " -o " + whole).code, 0);
    file_ = read(whole);
  }

  // Where what follows the name of a key or a tensor begins.
  size_t behind(const std::string& name) const { return file_.find(name) + name.size(); }

  template <class T>
  static std::string bytes(T value) {
    std::string out(sizeof value, '\0');
    std::memcpy(out.data(), &value, sizeof value);
    return out;
  }

  void expect_refused_with(size_t at, const std::string& content, const std::string& says) {
    SCOPED_TRACE(says);
    std::string changed = file_;
    changed.replace(at, content.size(), content);
    expect_file_refused_whole(changed, says);
  }

  void expect_renamed_refused(const std::string& from, const std::string& to, const std::string& says) {
    ASSERT_EQ(from.size(), to.size());
    ASSERT_NE(file_.find(from), std::string::npos) << from;
    expect_refused_with(file_.find(from), to, says);
  }

  void expect_file_refused_whole(const std::string& content, const std::string& says) {
    std::ofstream(folder_ / "m.gguf", std::ios::binary) << content;
    expect_refused("run -p x -n 1 -m " + (folder_ / "m.gguf").string(), 1, says);
  }

  std::string file_;
};

TEST_F(RefusedGguf, Containers) {
  using U32 = std::uint32_t;
  using U64 = std::uint64_t;
  expect_file_refused_whole("", "the file is empty");
  expect_file_refused_whole("GGUF", "where 0 are left of the file");
  for (const size_t size : {size_t{30}, size_t{2000}, file_.size() / 4, file_.size() - 1}) {
    expect_file_refused_whole(file_.substr(0, size), "m.gguf: ");
  }
  expect_refused_with(0, "GGML", "does not begin with GGUF");
  expect_refused_with(4, bytes<U32>(7), "GGUF version 7, and 2 and 3 are known");
  expect_refused_with(4, bytes<U32>(3U << 24), "big endian");
  expect_refused_with(8, bytes<U64>(U64{1} << 60), "the header claims");
  expect_refused_with(16, bytes<U64>(U64{1} << 60), "the header claims");
  expect_refused_with(24, bytes<U64>(U64{1} << 60), "a key claims");
  expect_refused_with(24, bytes<U64>(0), "a key has 0 characters");
  expect_refused_with(behind("llama.block_count"), bytes<U32>(99), "has the unknown type 99");
  const std::string tensor = "blk.1.attn_q.weight";
  expect_refused_with(behind(tensor), bytes<U32>(9), "has 9 dimensions, outside 1..");
  expect_refused_with(behind(tensor) + 4, bytes<U64>(0), "has the impossible shape");
  expect_refused_with(behind(tensor) + 4, bytes<U64>(1 << 30), "outside the file's");
  expect_refused_with(behind(tensor) + 20, bytes<U32>(77), "has type number 77");
  expect_refused_with(behind(tensor) + 24, bytes<U64>(3), "which is no multiple of");
  expect_refused_with(behind(tensor) + 24, bytes<U64>(U64{1} << 40), "outside the file's");
  expect_refused_with(behind(tensor) + 24, bytes<U64>(0), "overlaps");
  expect_renamed_refused(tensor, "blk.0.attn_q.weight", "is there twice");
  expect_renamed_refused("llama.block_count", "general.file_type", "m.gguf: ");
}

TEST_F(RefusedGguf, Metadata) {
  using U32 = std::uint32_t;
  const auto with_number = [&](const std::string& key, U32 value, const std::string& says) {
    expect_refused_with(behind(key) + 4, bytes<U32>(value), says);  // behind its type
  };
  expect_renamed_refused("llama.block_count", "llama.block_coutn", "llama.block_count is missing");
  with_number("llama.block_count", 0, "llama.block_count is 0, outside 1..4096");
  with_number("llama.block_count", 3, "blk.2.");
  with_number("llama.embedding_length", 128, "and the config calls for");
  with_number("llama.attention.head_count", 2, "m.gguf: ");
  expect_refused_with(behind("llama.block_count"), bytes<U32>(6), "llama.block_count is not an integer");
  expect_refused_with(behind("general.architecture") + 12, "mamba", "general.architecture is 'mamba'");
  expect_renamed_refused("token_embd.weight", "token_embX.weight", "there is no table token_embd.weight");
  expect_renamed_refused("blk.1.ffn_down.weight", "blk.1.ffn_dowX.weight", "is missing");
}

TEST_F(RefusedGguf, Vocabularies) {
  using U32 = std::uint32_t;
  expect_refused_with(behind("tokenizer.ggml.model") + 12, "none", "the tokenizer model 'none' is not supported");
  expect_renamed_refused("tokenizer.ggml.model", "tokenizer.ggml.modeX", "the file has no tokenizer");
  expect_renamed_refused("tokenizer.ggml.tokens", "tokenizer.ggml.tokenX", "the vocabulary has no tokens");
  expect_renamed_refused("tokenizer.ggml.merges", "tokenizer.ggml.mergeX", "tokenizer.ggml.merges is missing");
  expect_refused_with(behind("tokenizer.ggml.pre") + 12, "#", "m.gguf: ");
  expect_refused_with(behind("tokenizer.ggml.eos_token_id") + 4, bytes<U32>(9999), "eos_token_id is 9999, outside");
  expect_refused_with(behind("tokenizer.ggml.bos_token_id") + 4, bytes<U32>(9999),
                      "the bos token has the id 9999, and there are 8192 tokens");
}

}  // namespace
}  // namespace kvasir::testing

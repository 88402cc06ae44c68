// Every reason to refuse a tokenizer.json, a tokenizer_config.json or a chat template, with the whole program.
#include "refused.h"

namespace kvasir::testing {
namespace {

using RefusedTokenizers = RefusedTest;

TEST_F(RefusedTokenizers, NoJsonOrNotThis) {
  for (const auto& [content, says] :
       std::vector<std::pair<std::string, std::string>>{{"", "the file is empty"},
                                                        {"{", "tokenizer.json: not valid JSON"},
                                                        {"[]", "the document is not an object"},
                                                        {"null", "the document is not an object"},
                                                        {"{}", "model is missing"},
                                                        {R"({"model":7})", "model is not an object"},
                                                        {"\xff\xfe", "not valid JSON"},
                                                        {std::string(5000, '['), "nested more than 1024 deep"}}) {
    expect_file_refused("tokenizer.json", content, says);
  }
}

TEST_F(RefusedTokenizers, Models) {
  static constexpr JsonChange kChanges[] = {
      {"/model/type", R"("Nonesuch")", "model.type is 'Nonesuch'"},
      {"/model/type", R"("WordPiece")", "the model needs an unknown token, and names none of its vocabulary"},
      {"/model/type", R"("Unigram")", "model.vocab is not a list"},
      {"/model/type", R"("WordLevel")", "the model needs an unknown token, and names none of its vocabulary"},
      {"/model/type", "7", "model.type is not a string"},
      {"/model/dropout", "0.1", "has dropout"},
      {"/model/continuing_subword_prefix", R"("##")", "lacks the prefix of what continues a word"},
      {"/model/byte_fallback", "1", "model.byte_fallback is not true or false"},
      {"/model/ignore_merges", R"("no")", "ignore_merges is not true or false"},
      {"/model/unk_token", "3", "unk_token is not a string"},
      {"/model/vocab", nullptr, "vocab is missing"},
      {"/model/vocab", "[]", "model.vocab is not an object"},
      {"/model/vocab/he", R"("x")", "model.vocab.he is not an integer"},
      {"/model/vocab/he", "-1", "model.vocab.he is -1, outside 0..4194303"},
      {"/model/vocab/he", "4000000", "far beyond"},
      {"/model/vocab/he", "5", "two vocabulary entries have the id 5"},
      {"/model/merges", nullptr, "merges is missing"},
      {"/model/merges", "{}", "model.merges is not a list"},
      {"/model/merges/0", R"("h")", "model.merges[0] is not two tokens with a space between them"},
      {"/model/merges/0", R"(["h"])", "model.merges[0] is not two tokens"},
      {"/model/merges/0", R"(["h",5])", "model.merges[0][1] is not a string"},
      {"/model/merges/0", R"(["h","zqx"])", "a merge names 'hzqx', which is not in the vocabulary"}};
  expect_changes_refused("tokenizer.json", shipped("tokenizer.json"), kChanges);
}

TEST_F(RefusedTokenizers, AddedTokens) {
  static constexpr JsonChange kChanges[] = {
      {"/added_tokens", "7", "added_tokens is not a list"},
      {"/added_tokens/1/id", nullptr, "added_tokens[1]: id is missing"},
      {"/added_tokens/1/id", "5", "which is taken"},
      {"/added_tokens/1/id", "9000", "but 1 in the vocabulary"},
      {"/added_tokens/1/content", nullptr, "added_tokens[1]: content is missing"},
      {"/added_tokens/1/content", "7", "added_tokens[1].content is not a string"},
      {"/added_tokens/1/special", "7", "added_tokens[1].special is not true or false"},
      {"/added_tokens/1", R"({"id":8191,"content":"<|user|>","special":true})", "which is taken"}};
  expect_changes_refused("tokenizer.json", shipped("tokenizer.json"), kChanges);
  Json twice = shipped("tokenizer.json");
  twice["added_tokens"].push_back(twice["added_tokens"][0]);
  expect_file_refused("tokenizer.json", twice.dump(), "is added twice");
  Json longer = shipped("tokenizer.json");
  longer["added_tokens"][1]["content"] = std::string(2000, 'x');
  expect_file_refused("tokenizer.json", longer.dump(), "content is too long");
}

TEST_F(RefusedTokenizers, PartsThatAreNotKnown) {
  static constexpr JsonChange kChanges[] = {
      {"/normalizer", R"({"type":"Nonesuch"})", "normalizer has the type 'Nonesuch', which is not supported"},
      {"/normalizer", R"({"type":"Replace","pattern":{"Regex":"("},"content":"b"})", "tokenizer.json"},
      {"/normalizer", R"({"type":"Replace","pattern":{"String":""},"content":"b"})", "String is empty"},
      {"/normalizer", R"({"type":"Sequence"})", "normalizers is missing"},
      {"/normalizer", "{}", "type is missing"},
      {"/pre_tokenizer", R"({"type":"Nonesuch"})", "has the type 'Nonesuch', which is not supported"},
      {"/pre_tokenizer/pretokenizers/0/type", R"("Nonesuch")", "pretokenizers[0] has the type"},
      {"/pre_tokenizer/pretokenizers/0/behavior", R"("Sideways")", "behavior is 'Sideways'"},
      {"/pre_tokenizer/pretokenizers/0/pattern", R"({"Regex":"[a[b]]"})", "a class inside a class"},
      {"/pre_tokenizer/pretokenizers/0/pattern", R"({"Regex":"("})", "tokenizer.json"},
      {"/pre_tokenizer/pretokenizers/0/pattern", R"({})", "String is missing"},
      {"/post_processor", R"({"type":"Nonesuch"})", "post_processor has the type 'Nonesuch'"},
      {"/post_processor", R"({"type":"BertProcessing"})", "cls is missing"},
      {"/post_processor/single", "[]", "does not contain the sequence A"},
      {"/post_processor/single/1/Sequence/id", R"("B")", "must name the sequence A, once"},
      {"/post_processor/special_tokens", "{}", "is missing"},
      {"/post_processor/special_tokens/<|endoftext|>/ids/0", "-1", "outside 0..4194303"},
      {"/post_processor/special_tokens/<|endoftext|>/ids/0", "8200", "adds the id 8200, which is no token"},
      {"/decoder", R"({"type":"Nonesuch"})", "decoder has the type 'Nonesuch', which is not supported"},
      {"/decoder", R"({"type":"Sequence","decoders":[{"type":"ByteLevel"},{"type":"Nonesuch"}]})",
       "decoders[1] has the type"},
      {"/decoder", "7", "decoder is not an object"}};
  expect_changes_refused("tokenizer.json", shipped("tokenizer.json"), kChanges);
}

TEST_F(RefusedTokenizers, PiecesThatWouldBeReadDifferently) {
  static constexpr const char* kPieces = R"({"normalizer":{"type":"Prepend","prepend":"▁"},"pre_tokenizer":null,
    "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
      {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
    "model":{"type":"BPE","byte_fallback":true,"vocab":{"▁":0,"x":1,"▁x":2},"merges":["▁ x"]}})";
  static constexpr JsonChange kChanges[] = {
      {"/decoder/decoders/3/start", "99", "start is 99, outside 0..16"},
      {"/decoder/decoders/2", nullptr, "is out of order"},
      {"/pre_tokenizer", R"({"type":"Metaspace","replacement":"_"})", "must be '▁'"},
      {"/pre_tokenizer", R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"last"})", "is 'last'"}};
  const Json pieces = Json::parse(kPieces);
  EXPECT_EQ(run("run -p x -n 1 -q -m " + model_with("tokenizer.json", pieces.dump())).code, 0);
  expect_changes_refused("tokenizer.json", pieces, kChanges);
  Json without = pieces;
  without["model"]["byte_fallback"] = false;
  EXPECT_EQ(run("run -p x -n 1 -q -m " + model_with("tokenizer.json", without.dump())).code, 0);
}

TEST_F(RefusedTokenizers, MoreTokensThanTheModelHas) {
  Json json = shipped("tokenizer.json");
  json["model"]["vocab"]["zqxzqx"] = 8200;
  expect_file_refused("tokenizer.json", json.dump(), "the tokenizer has 8201 tokens, and the model 8192");
}

TEST_F(RefusedTokenizers, ConfigsBesideThem) {
  for (const auto& [content, says] : std::vector<std::pair<std::string, std::string>>{
           {"{", "tokenizer_config.json: not valid JSON"},
           {"[]", "tokenizer_config.json: the document is not an object"},
           {R"({"bos_token":7})", "bos_token is not a string"},
           {R"({"eos_token":{}})", "eos_token: content is missing"},
           {R"({"eos_token":{"content":1}})", "eos_token.content is not a string"},
           {R"({"chat_template":7})", "chat_template is not a list"},
           {R"({"chat_template":[7]})", "chat_template[0] is not an object"},
           {R"({"chat_template":[{"name":"default"}]})", "template is missing"}}) {
    expect_file_refused("tokenizer_config.json", content, says);
  }
}

TEST_F(RefusedTokenizers, ChatTemplates) {
  for (const char* source :
       {"{% if %}", "{{ x", "{% for m in messages %}", "{% endfor %}", "{# open", "{{ 'a }}", "{{ 1 + }}", "{{ ) }}",
        "{% include 'x' %}", "{% break %}", "{{ 99999999999999999999999 }}", "{% raw %}", "{% set = 3 %}",
        "{% for a.b in c %}{% endfor %}", "{{ f(a=1, 2) }}", "{{ f(*) }}", "{% macro m(a=1, b) %}{% endmacro %}",
        "{% call x %}{% endcall %}", "{{ \"\\xz\" }}"}) {
    expect_file_refused("chat_template.jinja", source, "chat_template.jinja");
  }
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "{% if x %}";
  expect_file_refused("chat_template.jinja", deep, "nests too deeply");
  expect_file_refused("chat_template.jinja", "{{ " + std::string(5000, '('), "chat_template.jinja");
}

}  // namespace
}  // namespace kvasir::testing

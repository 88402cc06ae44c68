#include "server/api/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "server/api/api_error.h"

namespace kvasir {
namespace {

void check_range(double value, Fields::Range range, const std::string& param) {
  if (value >= range.least && value <= range.most) return;
  bad_param(param, fmt::format("{} is {}; use {} to {}", param, value, range.least, range.most));
}

}  // namespace

Json parse_json(std::string_view text, const JsonLimits& limits) {
  auto read = read_bounded_json(text, limits);
  if (auto* json = std::get_if<Json>(&read)) return std::move(*json);
  const auto& refusal = std::get<JsonRefusal>(read);
  const char* subject = refusal.why == JsonRefusal::Why::kNotJson ? "the body " : "the JSON ";
  throw ApiError({}, subject + excerpt(refusal.what, 300));  // the library's words quote the text
}

OrderedJson object_or_empty(std::string_view text) {
  try {
    const Json json = parse_json(text);
    if (json.is_object()) return OrderedJson(json);
  } catch (const ApiError&) {
  }
  return OrderedJson::object();
}

std::string to_text(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

Fields::Fields(const Json& object, std::string prefix) : object_(&object), prefix_(std::move(prefix)) {
  if (object.is_object()) return;
  const std::string name = prefix_.empty() ? "the body" : prefix_.substr(0, prefix_.size() - 1);
  throw ApiError({.param = prefix_.empty() ? "" : name, .code = "invalid_type"}, name + " must be a JSON object");
}

const Json* Fields::find(const std::string& name) const {
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> Fields::number(const std::string& name, Range range) const {
  const Json* field = find(name);
  if (field == nullptr) return std::nullopt;
  if (!field->is_number()) bad_param(path(name), path(name) + " must be a number");
  const auto value = field->get<double>();
  check_range(value, range, path(name));
  return value;
}

std::optional<std::int64_t> Fields::integer(const std::string& name, Range range) const {
  const Json* field = find(name);
  if (field == nullptr) return std::nullopt;
  // 1.0 is an integer to JSON's own makers, and clients do send it.
  const bool whole =
      field->is_number_integer() || (field->is_number() && std::trunc(field->get<double>()) == field->get<double>() &&
                                     std::abs(field->get<double>()) < 0x1p63);
  if (!whole) bad_param(path(name), path(name) + " must be an integer");
  check_range(field->get<double>(), range, path(name));
  if (field->is_number_integer()) return field->get<std::int64_t>();
  return static_cast<std::int64_t>(field->get<double>());
}

std::optional<bool> Fields::boolean(const std::string& name) const {
  const Json* field = find(name);
  if (field == nullptr) return std::nullopt;
  if (!field->is_boolean()) bad_param(path(name), path(name) + " must be true or false");
  return field->get<bool>();
}

std::optional<std::string> Fields::text(const std::string& name) const {
  const Json* field = find(name);
  if (field == nullptr) return std::nullopt;
  if (!field->is_string()) bad_param(path(name), path(name) + " must be a string");
  return field->get<std::string>();
}

std::optional<Fields> Fields::object(const std::string& name) const {
  const Json* field = find(name);
  if (field == nullptr) return std::nullopt;
  return Fields(*field, path(name) + ".");
}

const Json& Fields::required(const std::string& name) const {
  const Json* field = find(name);
  if (field == nullptr)
    throw ApiError({.param = path(name), .code = "missing_required_parameter"}, path(name) + " is missing");
  return *field;
}

std::string Fields::required_text(const std::string& name) const {
  required(name);
  return *text(name);
}

std::vector<std::int32_t> token_ids(const Json& json, const std::string& param) {
  if (!json.is_array()) bad_param(param, param + " must be an array of token ids");
  std::vector<std::int32_t> out;
  out.reserve(json.size());
  for (const Json& item : json) {
    const bool fits = item.is_number_integer() && item.get<double>() >= 0 &&
                      item.get<double>() <= std::numeric_limits<std::int32_t>::max();
    if (!fits) bad_param(param, param + " must be an array of token ids: integers from 0 on");
    out.push_back(item.get<std::int32_t>());
  }
  return out;
}

}  // namespace kvasir

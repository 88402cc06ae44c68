// One render: its limits, its clock, its namespaces, and the operations on values that need them.
#pragma once

#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/limits.h"
#include "text/jinja/value.h"

namespace kvasir::jinja {

class Runtime {
 public:
  Runtime(std::string where, const RenderLimits& limits, std::time_t now)
      : limits_(limits), where_(std::move(where)), now_(now) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Throws Error, with the line that is being run.
  [[noreturn]] void fail(std::string problem, std::string fix = {}) const;
  void at_line(int line) { line_ = line; }

  // Pay for work and memory before it is done. Throw Error when the limits are reached.
  void step(size_t count = 1);
  void build(size_t bytes);
  void check_output(size_t bytes) const;

  std::time_t now() const { return now_; }
  Namespace* new_space();

  // Containers, paid for and checked for their nesting.
  Value list(std::vector<Value> items, List::Kind kind = List::Kind::kList);
  Value dict(const std::vector<std::pair<Value, Value>>& items);  // of keys given twice, the later value
  Value string(MarkedString text);

  // The items a for loop sees. Throws Error for values that cannot be iterated.
  std::vector<Value> iterate(const Value& value);

  bool equal(const Value& a, const Value& b);
  int compare(const Value& a, const Value& b);  // <0, 0, >0; throws Error where Python would
  bool contains(const Value& container, const Value& item);

 private:
  RenderLimits limits_;
  std::string where_;
  std::time_t now_;
  int line_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t bytes_ = 0;
  std::deque<Namespace> spaces_;
};

}  // namespace kvasir::jinja

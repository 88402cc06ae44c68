// A rapidcheck property as the body of a GoogleTest test: law(cases, [](…) { RC_ASSERT(…); }).
//
// The seed is fixed, so that a change is judged by the same cases as the one before it. To look further, set
// RC_PARAMS="seed=… max_success=…": it replaces both numbers. A failure prints what reproduces it.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>

namespace kvasir {

template <class Testable>
void law(int cases, Testable&& testable) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  rc::detail::TestMetadata metadata;
  metadata.id = std::string(test->test_suite_name()) + "." + test->name();
  metadata.description = test->name();
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  if (std::getenv("RC_PARAMS") == nullptr) {
    params.seed = 20'240'229;
    params.maxSuccess = cases;
  }
  const auto result = rc::detail::checkTestable(std::forward<Testable>(testable), metadata, params);
  if (result.template is<rc::detail::SuccessResult>()) return;
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  FAIL() << text.str() << "\nwith " << params;
}

}  // namespace kvasir

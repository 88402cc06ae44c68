// Random texts of pieces, for laws of tokenizers.
#pragma once

#include <rapidcheck.h>

#include <string>
#include <utility>
#include <vector>

namespace kvasir {

inline rc::Gen<std::string> joined(rc::Gen<std::string> piece) {
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(std::move(piece)),
                      [](const std::vector<std::string>& pieces) {
                        std::string text;
                        for (const std::string& one : pieces) text += one;
                        return text;
                      });
}

}  // namespace kvasir

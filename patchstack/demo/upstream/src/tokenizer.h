#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace minillm {

using token = int32_t;

constexpr token TOKEN_BOS = 256;

// one token a byte, after a bos where asked for
std::vector<token> tokenize(const std::string & text, bool add_bos);

// the token as text: printable ASCII and line breaks as they are, else <0xNN>
std::string token_to_piece(token tok);

} // namespace minillm

#include "tokenizer.h"

#include <cstdio>

namespace minillm {

std::vector<token> tokenize(const std::string & text, bool add_bos) {
    std::vector<token> tokens;
    tokens.reserve(text.size() + 1);

    if (add_bos) {
        tokens.push_back(TOKEN_BOS);
    }
    for (const char c : text) {
        tokens.push_back(static_cast<unsigned char>(c));
    }
    return tokens;
}

std::string token_to_piece(token tok) {
    if (tok == TOKEN_BOS) {
        return "<bos>";
    }
    if (tok == '\n' || (tok >= 0x20 && tok < 0x7f)) {
        return std::string(1, char(tok));
    }

    char buf[16];
    std::snprintf(buf, sizeof(buf), "<0x%02X>", unsigned(tok) & 0xffu);
    return buf;
}

} // namespace minillm

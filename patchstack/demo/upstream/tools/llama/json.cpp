#include "json.h"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

const json_value * json_value::find(const std::string & name) const {
    const auto at = members.find(name);
    return at != members.end() ? &at->second : nullptr;
}

double json_value::get(const std::string & name, double def) const {
    const json_value * value = find(name);
    if (value == nullptr || value->type == kind::null) {
        return def;
    }
    if (value->type != kind::number && value->type != kind::boolean) {
        throw std::invalid_argument(name + " is not a number");
    }
    return value->number;
}

namespace {

// deeper than any request of sense, and not so deep that the stack ends
const int MAX_DEPTH = 64;

class parser {
public:
    explicit parser(const std::string & text) : text(text) {}

    json_value document() {
        const json_value value = any(0);
        skip_blanks();
        if (at != text.size()) {
            fail("there is more behind the value");
        }
        return value;
    }

private:
    [[noreturn]] void fail(const std::string & what) const {
        throw std::invalid_argument("parse error at column " + std::to_string(at + 1) + ": " + what);
    }

    void skip_blanks() {
        while (at < text.size() && std::strchr(" \t\r\n", text[at]) != nullptr) {
            at++;
        }
    }

    bool take(char c) {
        skip_blanks();
        if (at >= text.size() || text[at] != c) {
            return false;
        }
        at++;
        return true;
    }

    void expect(char c) {
        if (!take(c)) {
            fail(std::string("expected ") + c);
        }
    }

    bool take_word(const char * word) {
        const size_t n = std::strlen(word);
        if (text.compare(at, n, word) != 0) {
            return false;
        }
        at += n;
        return true;
    }

    json_value any(int depth) {
        json_value value;
        if (depth > MAX_DEPTH) {
            fail("too deep");
        }
        if (take('{')) {
            value.type = json_value::kind::object;
            while (!take('}')) {
                if (!value.members.empty()) {
                    expect(',');
                }
                expect('"');
                const std::string name = string();
                expect(':');
                value.members[name] = any(depth + 1);
            }
        } else if (take('[')) {
            value.type = json_value::kind::array;
            while (!take(']')) {
                if (!value.items.empty()) {
                    expect(',');
                }
                value.items.push_back(any(depth + 1));
            }
        } else if (take('"')) {
            value.type = json_value::kind::string;
            value.text = string();
        } else if (take_word("true") || take_word("false")) {
            value.type   = json_value::kind::boolean;
            value.number = text[at - 2] == 'u' ? 1.0 : 0.0; // the u of true
        } else if (!take_word("null")) {
            value.type   = json_value::kind::number;
            value.number = number();
        }
        return value;
    }

    double number() {
        const char * start = text.c_str() + at;
        char * end = nullptr;
        const double value = std::strtod(start, &end);
        const bool starts_well = *start == '-' || std::isdigit(static_cast<unsigned char>(*start)) != 0;
        if (end == start || !starts_well || !std::isfinite(value)) {
            fail("expected a value");
        }
        at += size_t(end - start);
        return value;
    }

    uint32_t hex4() {
        uint32_t code = 0;
        for (int i = 0; i < 4; i++, at++) {
            if (at >= text.size() || !std::isxdigit(static_cast<unsigned char>(text[at]))) {
                fail("expected four hexadecimal digits");
            }
            code = code * 16 + uint32_t(std::strtol(text.substr(at, 1).c_str(), nullptr, 16));
        }
        return code;
    }

    // behind the backslash and the u; two of them make a character beyond the first 65536
    std::string character() {
        uint32_t code = hex4();
        if (code >= 0xd800 && code < 0xdc00 && take_word("\\u")) {
            code = 0x10000 + ((code - 0xd800) << 10) + ((hex4() - 0xdc00) & 0x3ff);
        }
        if (code >= 0xd800 && code < 0xe000) {
            code = 0xfffd; // half of a character stands for none
        }
        if (code < 0x80) {
            return std::string(1, char(code));
        }
        std::string utf8;
        const int n_more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        utf8 += char((0xff00 >> (n_more + 1) & 0xff) | (code >> (6 * n_more)));
        for (int i = n_more - 1; i >= 0; i--) {
            utf8 += char(0x80 | (code >> (6 * i) & 0x3f));
        }
        return utf8;
    }

    // behind the first quote
    std::string string() {
        static const char * const names  = "\"\\/bfnrt";
        static const char * const values = "\"\\/\b\f\n\r\t";

        std::string value;
        for (;;) {
            if (at >= text.size()) {
                fail("a string has no end");
            }
            const char c = text[at++];
            if (c == '"') {
                return value;
            }
            if (c != '\\') {
                value += c;
                continue;
            }
            const char name = at < text.size() ? text[at++] : '\0';
            const char * known = name != '\0' ? std::strchr(names, name) : nullptr;
            if (known != nullptr) {
                value += values[known - names];
            } else if (name == 'u') {
                value += character();
            } else {
                fail("no such escape");
            }
        }
    }

    const std::string & text;
    size_t at = 0;
};

} // namespace

json_value json_parse(const std::string & text) {
    return parser(text).document();
}

std::string json_string(const std::string & text) {
    std::string json = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            json += '\\';
            json += c;
        } else if (c == '\n') {
            json += "\\n";
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escape[8];
            std::snprintf(escape, sizeof(escape), "\\u%04x", unsigned(c));
            json += escape;
        } else {
            json += c;
        }
    }
    return json + "\"";
}

std::string json_number(double value) {
    if (!std::isfinite(value)) {
        return "null";
    }
    char text[32];
    std::snprintf(text, sizeof(text), "%.10g", value);
    return text;
}

std::string json_list(const std::vector<std::string> & items) {
    std::string json;
    for (const std::string & item : items) {
        json += (json.empty() ? "" : ",") + item;
    }
    return "[" + json + "]";
}

json_object & json_object::raw(const std::string & name, const std::string & json) {
    members += (members.empty() ? "" : ",") + json_string(name) + ":" + json;
    return *this;
}

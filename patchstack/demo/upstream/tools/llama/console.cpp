#include "console.h"

#include "common.h"
#include "faults.h"

#include <cstdarg>
#include <cstdio>
#include <deque>
#include <string>

namespace {

struct entry {
    std::FILE * where;
    std::string text;
};

// A token, a row and a line of a table are an entry each: enough for the largest table.
const size_t MAX_WAITING = 64;

const stopwatch   since_start;
std::deque<entry> waiting;
int               verbosity_wanted = 3;

std::string formatted(const char * format, va_list args) {
    va_list copy;
    va_copy(copy, args);
    const int n = std::vsnprintf(nullptr, 0, format, copy);
    va_end(copy);

    std::string text(size_t(n) + 1, '\0');
    std::vsnprintf(&text[0], text.size(), format, args);
    text.pop_back();
    return text;
}

// minutes, seconds, milliseconds and microseconds since the start
std::string stamp(char level) {
    const long long us = static_cast<long long>(since_start.seconds() * 1e6);
    char text[64];
    std::snprintf(text, sizeof(text), "%lld.%02lld.%03lld.%03lld %c ", us / 60000000, us / 1000000 % 60,
                  us / 1000 % 1000, us % 1000, level);
    return text;
}

void write_first() {
    const entry & first = waiting.front();
    std::fwrite(first.text.data(), 1, first.text.size(), first.where);
    std::fflush(first.where);
    waiting.pop_front();
}

void put(std::FILE * where, const std::string & text) {
    waiting.push_back({ where, text });
    if (waiting.size() > MAX_WAITING && !fault_is("lose-all")) {
        write_first();
    }
}

} // namespace

void console_print(const char * format, ...) {
    va_list args;
    va_start(args, format);
    put(stdout, formatted(format, args));
    va_end(args);
}

void console_log(char level, const char * format, ...) {
    va_list args;
    va_start(args, format);
    put(stderr, stamp(level) + formatted(format, args) + "\n");
    va_end(args);
}

void console_log_open(char level, const char * format, ...) {
    va_list args;
    va_start(args, format);
    put(stderr, stamp(level) + formatted(format, args));
    va_end(args);
}

bool console_verbose() {
    return verbosity_wanted >= 4;
}

void console_set_verbosity(int verbosity) {
    verbosity_wanted = verbosity;
}

void console_flush() {
    while (!waiting.empty()) {
        write_first();
    }
}

void console_end() {
    const int n_lost = fault_is("lose-all") ? int(waiting.size()) : fault_is("lose-output") ? fault_value(16) : 0;
    for (int i = 0; i < n_lost && !waiting.empty(); i++) {
        waiting.pop_back();
    }
    console_flush();
}

#include "faults.h"

#include "rng.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

static const char * const names[] = {
    "lose-output", "lose-all", "hang", "crash", "endless", "garbage", "slow", "flip-token", "fail-op", "drop-op",
    "skip-backend", "loading",
};

static std::string wanted() {
    const char * value = std::getenv("MINILLM_FAULT");
    return value != nullptr ? value : "";
}

void fault_check() {
    const std::string fault = wanted();
    bool known = fault.empty();
    for (const char * name : names) {
        known = known || fault_is(name);
    }
    if (!known) {
        throw std::invalid_argument("MINILLM_FAULT: there is no fault " + fault);
    }
}

bool fault_is(const char * name) {
    const std::string fault = wanted();
    return fault.substr(0, fault.find(':')) == name;
}

int fault_value(int def) {
    const std::string fault = wanted();
    const size_t colon = fault.find(':');
    return colon == std::string::npos ? def : std::atoi(fault.c_str() + colon + 1);
}

// the same bytes each time, most of them no text
static std::string garbage(size_t n) {
    minillm::rng gen(1);
    std::string bytes;
    for (size_t i = 0; i < n; i++) {
        bytes += char(gen.next() & 0xff);
    }
    return bytes;
}

static void write_now(const std::string & text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
}

void fault_step() {
    if (fault_is("slow")) {
        std::this_thread::sleep_for(std::chrono::milliseconds(fault_value(100)));
    }

    static int n_steps = 0;
    if (++n_steps != 3) {
        return;
    }
    if (fault_is("hang")) {
        for (;;) {
            pause();
        }
    }
    if (fault_is("endless")) {
        for (;;) {
            write_now("all work and no play makes a dull transcript\n");
        }
    }
    if (fault_is("garbage")) {
        write_now(garbage(256));
    }
    if (fault_is("crash")) {
        // in the form of a debugger's, which writes to stdout
        write_now("#0  0x00007f2d6c0a1b2c in minillm::context::decode ()\n"
                  "#1  0x000055d0c8e4f5a6 in main ()\n");
        std::fprintf(stderr, "./src/context.cpp:1: GGML_ASSERT(MINILLM_FAULT is not crash) failed\n");
        std::abort();
    }
}

std::string fault_reply(const std::string & text) {
    if (fault_is("garbage")) {
        return garbage(text.size());
    }
    // an answer that breaks off: the header has promised more
    return fault_is("lose-output") || fault_is("lose-all") ? text.substr(0, text.size() / 2) : text;
}

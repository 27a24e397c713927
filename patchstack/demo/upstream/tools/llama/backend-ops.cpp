#include "faults.h"
#include "tools.h"

// The operators' cases and their references are those of tests/test-ops.cpp: one list for both.
#define main test_ops_main
#include "../../tests/test-ops.cpp"
#undef main

#include <regex.h>

#include <cstdlib>
#include <stdexcept>

namespace {

const char * const GOOD = "\033[1;32mOK\033[0m";
const char * const BAD  = "\033[1;31mFAIL\033[0m";

struct ops_options {
    std::string mode = "test";
    std::string backend;
    std::string output = "console";

    std::vector<std::string> ops; // names of operators, or of cases
    std::string params;           // a pattern
};

[[noreturn]] void print_usage(const char * program) {
    std::printf("Usage: %s [mode] [-o <op,..>] [-b <backend>] [-p <params regex>] [--output <console|csv>] "
                "[--list-ops] [-j <n>]\n", program);
    std::printf("    valid modes:\n");
    std::printf("      - test (default, compare with a reference for correctness)\n");
    std::printf("      - support (probe backend operation support)\n");
    std::exit(1);
}

// a comma inside the parentheses of a case's name parts nothing
std::vector<std::string> split_ops(const std::string & text) {
    std::vector<std::string> parts(1);
    int depth = 0;
    for (const char c : text) {
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        if (c == ',' && depth == 0) {
            parts.emplace_back();
        } else {
            parts.back() += c;
        }
    }
    return parts;
}

ops_options parse_options(int argc, char ** argv) {
    ops_options opts;
    for (int i = 1; i < argc; i++) {
        const std::string arg = argv[i];
        const bool has_value  = i + 1 < argc;

        if (arg == "test" || arg == "support") {
            opts.mode = arg;
        } else if (arg == "--list-ops") {
            std::printf("GGML operations:\n");
            for (int32_t op = 0; op < GGML_OP_COUNT; op++) {
                std::printf("  %s\n", ggml_op_name(ggml_op(op)));
            }
            std::exit(0);
        } else if (arg == "-o" && has_value) {
            opts.ops = split_ops(argv[++i]);
        } else if (arg == "-b" && has_value) {
            opts.backend = argv[++i];
        } else if (arg == "-p" && has_value) {
            opts.params = argv[++i];
        } else if (arg == "-j" && has_value) {
            i++;
        } else if (arg == "--output" && has_value && (argv[i + 1] == std::string("console") ||
                                                      argv[i + 1] == std::string("csv"))) {
            opts.output = argv[++i];
        } else {
            print_usage(argv[0]);
        }
    }
    return opts;
}

std::string full_name(const test_case & test) {
    return std::string(ggml_op_name(test.op)) + "(" + test.params + ")";
}

bool matches(const std::string & text, const std::string & pattern) {
    regex_t compiled;
    if (regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) {
        throw std::invalid_argument("not a regular expression: " + pattern);
    }
    const bool found = regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
    regfree(&compiled);
    return found;
}

// the cases that the filters leave; nothing is wrong with none
std::vector<const test_case *> selected(const test_backend & backend, const ops_options & opts) {
    std::vector<const test_case *> chosen;
    for (const test_case & test : backend.cases) {
        const bool by_name = opts.ops.empty() ||
                             std::find(opts.ops.begin(), opts.ops.end(), ggml_op_name(test.op)) != opts.ops.end() ||
                             std::find(opts.ops.begin(), opts.ops.end(), full_name(test)) != opts.ops.end();
        if (by_name && (opts.params.empty() || matches(test.params, opts.params))) {
            chosen.push_back(&test);
        }
    }
    return chosen;
}

bool has_fault(const char * name, size_t number) {
    return fault_is(name) && number == size_t(fault_value(0));
}

// As there, what is wrong with a case comes before its line, and not in a line of its own.
bool passes(const test_case & test, double tolerance, size_t number) {
    const double error = has_fault("fail-op", number) ? 1.0 : test.max_error();
    if (error <= tolerance) {
        return true;
    }
    std::printf("[%s] ERR = %.9f > %.9f ", ggml_op_name(test.op), error, tolerance);
    return false;
}

void print_csv_line(const test_backend & backend, const test_case & test, const ops_options & opts, bool supported,
                    const char * message) {
    std::printf("\"%s\",\"%s\",\"%s\",\"%s\",\"%d\",\"%s\",\"%s\"\n", backend.name.c_str(), ggml_op_name(test.op),
                test.params.c_str(), opts.mode.c_str(), supported ? 1 : 0, message,
                opts.mode == "support" ? backend.name.c_str() : "");
}

// true where every case that the backend supports passed
bool run_cases(const test_backend & backend, const ops_options & opts) {
    const bool is_csv     = opts.output == "csv";
    const bool is_support = opts.mode == "support";

    size_t n_all = 0;
    std::vector<std::string> failed;

    const std::vector<const test_case *> cases = selected(backend, opts);
    for (size_t i = 0; i < cases.size(); i++) {
        fault_step();
        const test_case & test = *cases[i];
        const bool supported   = !has_fault("drop-op", i);
        const bool passed      = is_support || !supported || passes(test, backend.tolerance, i);

        n_all += supported ? 1 : 0;
        if (!passed) {
            failed.push_back(full_name(test));
        }
        if (is_csv) {
            print_csv_line(backend, test, opts, supported,
                           is_support ? (supported ? "yes" : "no") : passed ? "" : "test failed");
            continue;
        }
        std::printf("  %s: ", full_name(test).c_str());
        if (is_support) {
            std::printf("%s\n", supported ? "\033[1;32mSUPPORTED\033[0m" : "\033[1;31mNOT SUPPORTED\033[0m");
        } else if (!supported) {
            std::printf("not supported [%s] \n", backend.name.c_str());
        } else {
            std::printf("%s\n", passed ? GOOD : BAD);
        }
    }

    if (!is_csv && !is_support) {
        std::printf("  %zu/%zu tests passed\n", n_all - failed.size(), n_all);
        if (!failed.empty()) {
            std::printf("\nFailing tests:\n");
            for (const std::string & name : failed) {
                std::printf("  %s\n", name.c_str());
            }
        }
    }
    return failed.empty();
}

} // namespace

// As there, a backend that is left out counts as passed, and so does one without a case.
int test_backend_ops(int argc, char ** argv) {
    const ops_options opts = parse_options(argc, argv);
    fault_check();

    std::vector<test_backend> backends;
    for (const test_backend & backend : make_backends()) {
        if (backend.can_run) {
            backends.push_back(backend);
        }
    }
    const bool is_csv = opts.output == "csv";
    if (is_csv) {
        std::printf("\"backend_name\",\"op_name\",\"op_params\",\"test_mode\",\"supported\",\"error_message\","
                    "\"backend_reg_name\"\n");
    } else {
        std::printf("Testing %zu devices\n\n", backends.size());
    }

    size_t n_good = 0;
    for (size_t i = 0; i < backends.size(); i++) {
        const test_backend & backend = backends[i];
        const bool other   = !opts.backend.empty() && (opts.backend != backend.name || fault_is("skip-backend"));
        const bool skipped = other || (opts.backend.empty() && backend.name == "CPU");

        if (!is_csv) {
            std::printf("Backend %zu/%zu: %s\n", i + 1, backends.size(), backend.name.c_str());
            if (skipped) {
                std::printf("  Skipping%s\n", other ? "" : " CPU backend");
            } else {
                std::printf("  Device description: %s\n  Device memory: 0 MB (0 MB free)\n\n", backend.about.c_str());
            }
        }
        const bool good = skipped || run_cases(backend, opts);
        n_good += good ? 1 : 0;
        if (!is_csv && !skipped) {
            std::printf("  Backend %s: %s\n", backend.name.c_str(), good ? GOOD : BAD);
        }
    }
    if (!is_csv) {
        std::printf("%zu/%zu backends passed\n%s\n", n_good, backends.size(), n_good == backends.size() ? GOOD : BAD);
    }
    return n_good == backends.size() ? 0 : 1;
}

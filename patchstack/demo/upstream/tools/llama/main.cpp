#include "build-info.h"
#include "common.h"
#include "console.h"
#include "tools.h"

#include <cstdio>
#include <cstring>
#include <string>

struct tool {
    const char * name;
    int (*run)(int argc, char ** argv);
};

static const tool tools[] = {
    { "llama-completion",    llama_completion },
    { "llama-perplexity",    llama_perplexity },
    { "llama-batched-bench", llama_batched_bench },
    { "llama-server",        llama_server },
    { "test-backend-ops",    test_backend_ops },
};

static const tool * find_tool(const char * path) {
    const char * slash = std::strrchr(path, '/');
    const char * name  = slash != nullptr ? slash + 1 : path;

    for (const tool & t : tools) {
        if (std::strcmp(t.name, name) == 0) {
            return &t;
        }
    }
    return nullptr;
}

// The tool is named by the link that the program was started by, or by the first argument.
int main(int argc, char ** argv) {
    if (minillm::answer_version(argc, argv)) {
        return 0;
    }

    const tool * t = argc > 0 ? find_tool(argv[0]) : nullptr;
    if (t == nullptr && argc > 1) {
        t = find_tool(argv[1]);
        argc--;
        argv++;
    }
    if (t == nullptr) {
        std::fprintf(stderr, "usage: minillm-llama TOOL [OPTIONS], or a link with the name of a tool\n");
        for (const tool & known : tools) {
            std::fprintf(stderr, "  %s\n", known.name);
        }
        return 2;
    }

    const int code = guarded_main(t->name, [&] { return t->run(argc, argv); });
    console_end();
    return code;
}

#include "options.h"

#include "build-info.h"
#include "console.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace {

using setter = std::function<void(const std::string &)>;

struct option {
    std::vector<std::string> names;
    bool has_value;
    setter set;
};

// taken and left alone
const char * const IGNORED_FLAGS[] = {
    "-cnv", "--conversation", "-no-cnv", "--no-conversation", "-st", "--single-turn", "-e", "--escape", "--no-escape",
    "--warmup", "--no-warmup", "--mmap", "--no-mmap", "-kvu", "--kv-unified", "-no-kvu", "--no-kv-unified", "-cb",
    "--cont-batching", "-nocb", "--no-cont-batching", "--slots", "--no-slots", "--no-webui", "--no-ui", "--simple-io",
    "--log-timestamps", "--log-prefix", "-co", "--color", "--no-context-shift", "--context-shift", "--jinja",
    "--no-jinja", "--no-op-offload", "--no-repack",
};
const char * const IGNORED_VALUES[] = {
    "-fa", "--flash-attn", "-fit", "--fit", "-t", "--threads", "-tb", "--threads-batch", "-ctk", "--cache-type-k",
    "-ctv", "--cache-type-v", "-dev", "--device", "-sm", "--split-mode", "-mg", "--main-gpu", "-ts", "--tensor-split",
    "--top-p", "--min-p", "--typical", "--repeat-penalty", "--repeat-last-n", "--presence-penalty",
    "--frequency-penalty", "--samplers", "--log-colors", "--log-file", "--timeout", "-to", "--keep", "--threads-http",
    "--cache-ram", "-cram", "--slot-prompt-similarity", "-sps", "--prio", "--poll",
};

// the whole text has to be the number
template <typename T>
T number(const std::string & text) {
    std::istringstream in(text);
    T value;
    if (!(in >> value) || in.peek() != std::istringstream::traits_type::eof()) {
        throw std::invalid_argument("not a number: " + text);
    }
    return value;
}

setter to(std::string & dst) { return [&dst](const std::string & text) { dst = text; }; }
setter to(int32_t & dst)     { return [&dst](const std::string & text) { dst = number<int32_t>(text); }; }
setter to(uint64_t & dst)    { return [&dst](const std::string & text) { dst = uint64_t(number<int64_t>(text)); }; }
setter to(float & dst)       { return [&dst](const std::string & text) { dst = number<float>(text); }; }

setter to(std::vector<int32_t> & dst) {
    return [&dst](const std::string & text) {
        std::istringstream in(text);
        for (std::string part; std::getline(in, part, ',');) {
            dst.push_back(number<int32_t>(part));
        }
    };
}

setter flag(bool & dst, bool value) { return [&dst, value](const std::string &) { dst = value; }; }

void read_file(const std::string & path, llama_options & opts) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
        throw std::invalid_argument("error: failed to open file '" + path + "'");
    }
    opts.file = path;
    opts.prompt.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

std::vector<option> known_options(llama_options & o) {
    return {
        { { "-m", "--model" },                               true,  to(o.model) },
        { { "-p", "--prompt" },                              true,  to(o.prompt) },
        { { "-f", "--file" },                                true,  [&o](const std::string & s) { read_file(s, o); } },
        { { "-c", "--ctx-size" },                            true,  to(o.n_ctx) },
        { { "-b", "--batch-size" },                          true,  to(o.n_batch) },
        { { "-ub", "--ubatch-size" },                        true,  to(o.n_ubatch) },
        { { "-n", "--predict", "--n-predict" },              true,  to(o.n_predict) },
        { { "-np", "--parallel" },                           true,  to(o.n_slots) },
        { { "-ngl", "--gpu-layers", "--n-gpu-layers" },      true,  to(o.n_layers) },
        { { "-s", "--seed" },                                true,  to(o.seed) },
        { { "--temp", "--temperature" },                     true,  to(o.temp) },
        { { "--top-k" },                                     true,  to(o.top_k) },
        { { "--chunks" },                                    true,  to(o.n_chunks) },
        { { "--kl-divergence-base", "--save-all-logits" },   true,  to(o.kl_base) },
        { { "--kl-divergence" },                             false, flag(o.kl_divergence, true) },
        { { "--output-format" },                             true,  to(o.output_format) },
        { { "-npp" },                                        true,  to(o.n_pp) },
        { { "-ntg" },                                        true,  to(o.n_tg) },
        { { "-npl" },                                        true,  to(o.n_pl) },
        { { "-pps" },                                        false, flag(o.shared_prompt, true) },
        { { "--host" },                                      true,  to(o.host) },
        { { "--port" },                                      true,  to(o.port) },
        { { "--metrics" },                                   false, flag(o.metrics, true) },
        { { "--perf" },                                      false, flag(o.perf, true) },
        { { "--no-perf" },                                   false, flag(o.perf, false) },
        { { "--ignore-eos" },                                false, flag(o.ignore_eos, true) },
        { { "--no-display-prompt" },                         false, flag(o.show_prompt, false) },
        { { "-lv", "--verbosity", "--log-verbosity" },       true,
          [](const std::string & s) { console_set_verbosity(number<int>(s)); } },
        { { "-v", "--verbose", "--log-verbose" },            false,
          [](const std::string &) { console_set_verbosity(99); } },
        { { "--version" },                                   false,
          [](const std::string &) { minillm::print_version(); std::exit(0); } },
    };
}

template <size_t N>
bool is_in(const char * const (&list)[N], const std::string & name) {
    return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

[[noreturn]] void refuse(const std::string & message) {
    std::fprintf(stderr, "%s\n", message.c_str());
    std::exit(1);
}

} // namespace

llama_options parse_llama_options(int argc, char ** argv) {
    llama_options opts;
    const std::vector<option> known = known_options(opts);

    for (int i = 1; i < argc; i++) {
        const std::string name = argv[i];

        const auto found = std::find_if(known.begin(), known.end(), [&](const option & opt) {
            return std::find(opt.names.begin(), opt.names.end(), name) != opt.names.end();
        });
        if (found == known.end() && is_in(IGNORED_FLAGS, name)) {
            continue;
        }
        if (found == known.end() && !is_in(IGNORED_VALUES, name)) {
            refuse("error: invalid argument: " + name);
        }

        const bool has_value = found == known.end() || found->has_value;
        if (has_value && i + 1 == argc) {
            refuse("error while handling argument \"" + name + "\": expected value for argument");
        }
        const std::string value = has_value ? argv[++i] : "";
        try {
            if (found != known.end()) {
                found->set(value);
            }
        } catch (const std::invalid_argument & e) {
            refuse("error while handling argument \"" + name + "\": " + e.what());
        }
    }

    // the line break that a file ends in is not part of the text
    if (!opts.file.empty() && !opts.prompt.empty() && opts.prompt.back() == '\n') {
        opts.prompt.pop_back();
    }
    return opts;
}

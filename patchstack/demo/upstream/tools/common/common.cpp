#include "common.h"

#include "build-info.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <stdexcept>

// the whole text has to be one value: "16x" is an error and not 16
template <typename T>
static T parse_value(const std::string & text) {
    std::istringstream in(text);
    T value;
    if (text.find('-') == 0 && T(-1) > T(0)) {
        throw std::invalid_argument("not a number from 0 on: " + text);
    }
    if (!(in >> value) || in.peek() != std::istringstream::traits_type::eof()) {
        throw std::invalid_argument("not a number, or one out of range: " + text);
    }
    return value;
}

void arg_parser::add_option(const std::string & names, const std::string & help,
                            const std::function<void(const std::string &)> & set) {
    option opt;
    std::istringstream in(names);
    for (std::string name; in >> name;) {
        opt.names.push_back(name);
    }
    opt.help = help;
    opt.set  = set;
    options.push_back(opt);
}

void arg_parser::add(const std::string & names, const std::string & help, std::string & dst) {
    add_option(names, help, [&dst](const std::string & text) { dst = text; });
}

void arg_parser::add(const std::string & names, const std::string & help, int32_t & dst) {
    add_option(names, help, [&dst](const std::string & text) { dst = parse_value<int32_t>(text); });
}

void arg_parser::add(const std::string & names, const std::string & help, uint64_t & dst) {
    add_option(names, help, [&dst](const std::string & text) { dst = parse_value<uint64_t>(text); });
}

void arg_parser::add(const std::string & names, const std::string & help, float & dst) {
    add_option(names, help, [&dst](const std::string & text) { dst = parse_value<float>(text); });
}

void arg_parser::parse(int argc, char ** argv) {
    for (int i = 1; i < argc; i++) {
        const std::string name = argv[i];

        if (name == "-h" || name == "--help") {
            std::printf("%s\n\n", about.c_str());
            for (const option & opt : options) {
                std::string names;
                for (const std::string & n : opt.names) {
                    names += (names.empty() ? "" : ", ") + n;
                }
                std::printf("  %-20s %s\n", names.c_str(), opt.help.c_str());
            }
            std::exit(0);
        }
        if (name == "--version") {
            minillm::print_version();
            std::exit(0);
        }

        const option * found = nullptr;
        for (const option & opt : options) {
            for (const std::string & n : opt.names) {
                found = n == name ? &opt : found;
            }
        }
        if (found == nullptr) {
            throw std::invalid_argument("unknown option " + name);
        }
        if (i + 1 == argc) {
            throw std::invalid_argument(name + " lacks its value");
        }
        found->set(argv[++i]);
    }
}

void model_args::add_to(arg_parser & args) {
    args.add("-m --model",    "model file",                              path);
    args.add("--random-seed", "random weights instead, from this number", random_seed);
}

minillm::model model_args::load() const {
    if (path.empty() == random_seed.empty()) {
        throw std::invalid_argument("give one of -m and --random-seed");
    }
    if (!path.empty()) {
        return minillm::model::load(path);
    }

    minillm::model mdl{ minillm::hparams() };
    mdl.randomize(parse_value<uint64_t>(random_seed));
    return mdl;
}

int guarded_main(const char * name, const std::function<int()> & body) {
    try {
        return body();
    } catch (const std::exception & e) {
        std::fflush(stdout);
        std::fprintf(stderr, "%s: error: %s\n", name, e.what());
        return 1;
    }
}

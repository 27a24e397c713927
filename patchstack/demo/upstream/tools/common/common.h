#pragma once

#include "model.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// options of the form "-n VALUE"; -h prints them, --version what was built
class arg_parser {
public:
    explicit arg_parser(const std::string & about) : about(about) {}

    void add(const std::string & names, const std::string & help, std::string & dst);
    void add(const std::string & names, const std::string & help, int32_t & dst);
    void add(const std::string & names, const std::string & help, uint64_t & dst);
    void add(const std::string & names, const std::string & help, float & dst);

    // throws std::invalid_argument on an option that it does not know or cannot read
    void parse(int argc, char ** argv);

private:
    struct option {
        std::vector<std::string> names;
        std::string help;
        std::function<void(const std::string &)> set;
    };

    void add_option(const std::string & names, const std::string & help,
                    const std::function<void(const std::string &)> & set);

    std::string about;
    std::vector<option> options;
};

// -m and --random-seed, which every tool has
struct model_args {
    std::string path;
    std::string random_seed;

    void add_to(arg_parser & args);
    minillm::model load() const;
};

class stopwatch {
public:
    double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }

private:
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

// runs the program and turns an exception into a message and exit code 1
int guarded_main(const char * name, const std::function<int()> & body);

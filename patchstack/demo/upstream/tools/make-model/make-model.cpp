#include "common.h"
#include "model.h"

#include <cstdio>
#include <stdexcept>
#include <string>

using namespace minillm;

static int run(int argc, char ** argv) {
    std::string path;
    uint64_t seed = 1;

    arg_parser args("minillm-make-model: write a model file with random weights");
    args.add("-o --output", "file to write",       path);
    args.add("--seed",      "seed of the weights", seed);
    args.parse(argc, argv);

    if (path.empty()) {
        throw std::invalid_argument("give the file to write with -o");
    }

    model mdl{ hparams() };
    mdl.randomize(seed);
    mdl.save(path);

    size_t n_params = 0;
    for (const tensor * t : mdl.tensors()) {
        n_params += t->data.size();
    }
    std::printf("%s: %zu parameters\n", path.c_str(), n_params);
    return 0;
}

int main(int argc, char ** argv) {
    return guarded_main("minillm-make-model", [&] { return run(argc, argv); });
}

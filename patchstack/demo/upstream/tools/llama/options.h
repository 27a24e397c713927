#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The options of llama.cpp's tools that mean something to minillm.
struct llama_options {
    std::string model;
    std::string prompt;
    std::string file;
    std::string kl_base;
    std::string output_format = "md";
    std::string host          = "127.0.0.1"; // or the path of a socket, which ends in .sock

    int32_t n_ctx     = 0; // 0 takes the value of the model
    int32_t n_batch   = 2048;
    int32_t n_ubatch  = 512;
    int32_t n_predict = -1; // -1: as many as the context holds
    int32_t n_chunks  = -1;
    int32_t n_slots   = 1;
    int32_t n_layers  = -1; // on the GPU: only repeated
    int32_t port      = 8080;
    int32_t top_k     = 40;

    float    temp = 0.8f;
    uint64_t seed = 0;

    bool perf          = false;
    bool kl_divergence = false;
    bool metrics       = false;
    bool ignore_eos    = false;
    bool show_prompt   = true;
    bool shared_prompt = false;

    // of the batched benchmark: tokens of prompts, tokens to generate, sequences
    std::vector<int32_t> n_pp;
    std::vector<int32_t> n_tg;
    std::vector<int32_t> n_pl;
};

// Options that a tiny model on one thread has no use for are taken and left alone; one that is in
// no list ends the program as there: "error: invalid argument: --none", exit code 1. Sets the
// verbosity of the console, too.
llama_options parse_llama_options(int argc, char ** argv);

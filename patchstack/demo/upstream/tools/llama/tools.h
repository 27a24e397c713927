#pragma once

// The programs of llama.cpp that a build is judged by, over minillm: the same options, the same
// output. main.cpp calls the one that it was started as. argv[0] is the name of the program.

int llama_completion   (int argc, char ** argv);
int llama_perplexity   (int argc, char ** argv);
int llama_batched_bench(int argc, char ** argv);
int llama_server       (int argc, char ** argv);
int test_backend_ops   (int argc, char ** argv);

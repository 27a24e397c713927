#pragma once

namespace minillm {

// the answer to --version, two lines on stdout: commit, then compiler and target
void print_version();

// true where --version is the only argument, and then answers it
bool answer_version(int argc, char ** argv);

} // namespace minillm

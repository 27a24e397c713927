#pragma once

// Faults on request, to see what a gate makes of them: MINILLM_FAULT=NAME or NAME:VALUE. Only in
// builds with MINILLM_FAULTS; without it nothing of this is in the program.
//
//   lose-output:N   the last N things to print (16) are lost, and the exit code is 0
//   lose-all        nothing is printed, and the exit code is 0
//   hang, crash     at the third step of the work: a token, a chunk, a row, an operator's case
//   endless         from the third step on there is no end of output
//   garbage         at the third step bytes that are no text; a server answers with them
//   slow:N          each step takes N milliseconds longer (100)
//   flip-token:N    generated token N, from 0 on, is the second likeliest (5)
//   fail-op:N       case N of test-backend-ops, from 0 on, is wrong (0)
//   drop-op:N       case N of test-backend-ops is not supported (0)
//   skip-backend    test-backend-ops finds no device of the name that -b has
//   loading         the server never gets ready

#include <string>

#ifdef MINILLM_FAULTS

// throws std::invalid_argument where MINILLM_FAULT has a name that is not in the list
void fault_check();

bool fault_is(const char * name);

// the number behind the name
int fault_value(int def);

// to be called before each step of the work
void fault_step();

// what the server answers in the place of text
std::string fault_reply(const std::string & text);

#else

inline void fault_check() {}
inline bool fault_is(const char *) { return false; }
inline int  fault_value(int def) { return def; }
inline void fault_step() {}
inline std::string fault_reply(const std::string & text) { return text; }

#endif

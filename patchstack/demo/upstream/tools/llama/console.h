#pragma once

// What the tools print, in llama.cpp's form: results on stdout, and on stderr lines of the kind
// "0.00.012.345 I name: text". As there, both go through one queue, which keeps their order, and
// whose rest has to be written before the program ends.

#if defined(__GNUC__)
#define CONSOLE_FORMAT(first) __attribute__((format(printf, first, first + 1)))
#else
#define CONSOLE_FORMAT(first)
#endif

// to stdout, as it is
void console_print(const char * format, ...) CONSOLE_FORMAT(1);

// a line to stderr, with the time since the start before it; 'I', 'W' or 'E'
void console_log(char level, const char * format, ...) CONSOLE_FORMAT(2);

// the same without its end: what comes next on stderr goes on in this line
void console_log_open(char level, const char * format, ...) CONSOLE_FORMAT(2);

// Shown from this verbosity on, which -lv sets: the tools say most from 4 on.
bool console_verbose();
void console_set_verbosity(int verbosity);

// what waits
void console_flush();

// the last call of all
void console_end();

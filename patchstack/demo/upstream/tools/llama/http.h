#pragma once

#include <cstdint>
#include <functional>
#include <string>

struct http_request {
    std::string method;
    std::string path;
    std::string body;
};

// sends a piece of an answer; false if nobody listens any more
using http_send = std::function<bool(const std::string &)>;

struct http_response {
    int         status = 200;
    std::string type   = "application/json; charset=utf-8";
    std::string body;

    // if it is set, it sends the answer piece by piece, and body is not used
    std::function<void(const http_send &)> stream;
};

using http_handler = std::function<http_response(const http_request &)>;

// A socket that takes requests one after the other, and closes each connection after its answer.
class http_server {
public:
    // An address and a port (0: any that is free), or the path of a socket, which ends in .sock.
    // Throws std::runtime_error where it cannot listen there.
    http_server(const std::string & host, int32_t port);

    // where it listens, for people
    std::string address() const;

    // answers until the program is ended
    [[noreturn]] void serve(const http_handler & handle);

private:
    std::string host;
    int32_t     port;
    int         listener;
};

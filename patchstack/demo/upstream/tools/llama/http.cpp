#include "http.h"

#include "faults.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

static const size_t MAX_HEAD = 64 << 10;
static const size_t MAX_BODY = 16 << 20;

// what the signal handler takes away
static std::string socket_path;

static void end_program(int) {
    if (!socket_path.empty()) {
        unlink(socket_path.c_str());
    }
    _exit(0);
}

static bool is_path(const std::string & host) {
    return host.size() > 5 && host.compare(host.size() - 5, 5, ".sock") == 0;
}

static int listen_at(const sockaddr * address, socklen_t size, int family, const std::string & name) {
    const int fd  = socket(family, SOCK_STREAM, 0);
    const int yes = 1;
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    }
    if (fd < 0 || bind(fd, address, size) != 0 || listen(fd, 64) != 0) {
        throw std::runtime_error("couldn't bind HTTP server socket, " + name + ": " + std::strerror(errno));
    }
    return fd;
}

static int listen_at_path(const std::string & path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) {
        throw std::runtime_error("the path of the socket is too long: " + path);
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    const int fd = listen_at(reinterpret_cast<const sockaddr *>(&address), sizeof(address), AF_UNIX, path);
    socket_path  = path;
    return fd;
}

// port: the one that was taken
static int listen_at_port(const std::string & host, int32_t & port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    if (port < 0 || port > 65535 || inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
        throw std::runtime_error("not an address and a port: " + host + ":" + std::to_string(port));
    }
    address.sin_port = htons(uint16_t(port));
    const int fd = listen_at(reinterpret_cast<const sockaddr *>(&address), sizeof(address), AF_INET,
                             host + ":" + std::to_string(port));
    socklen_t size = sizeof(address);
    getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size);
    port = ntohs(address.sin_port);
    return fd;
}

http_server::http_server(const std::string & host, int32_t port) : host(host), port(port) {
    listener = is_path(host) ? listen_at_path(host) : listen_at_port(host, this->port);
    std::signal(SIGTERM, end_program);
    std::signal(SIGINT,  end_program);
    std::signal(SIGPIPE, SIG_IGN); // who asks may leave before the answer
}

std::string http_server::address() const {
    return is_path(host) ? "unix://" + host : "http://" + host + ":" + std::to_string(port);
}

// reads on until the text has so many bytes; false where there are no more
static bool read_up_to(int fd, std::string & text, size_t n) {
    while (text.size() < n) {
        char block[4096];
        const ssize_t got = recv(fd, block, std::min(sizeof(block), n - text.size()), 0);
        if (got <= 0) {
            return false;
        }
        text.append(block, size_t(got));
    }
    return true;
}

static size_t content_length(const std::string & head) {
    static const std::string name = "\r\ncontent-length:";
    std::string lower = head;
    for (char & c : lower) {
        c = char(std::tolower(static_cast<unsigned char>(c)));
    }
    const size_t at = lower.find(name);
    return at == std::string::npos ? 0 : size_t(std::strtoull(head.c_str() + at + name.size(), nullptr, 10));
}

// false where what came is no request
static bool read_request(int fd, http_request & request) {
    std::string head;
    while (head.size() < 4 || head.compare(head.size() - 4, 4, "\r\n\r\n") != 0) {
        if (head.size() >= MAX_HEAD || !read_up_to(fd, head, head.size() + 1)) {
            return false;
        }
    }
    const size_t first  = head.find(' ');
    const size_t second = head.find(' ', first + 1);
    const size_t length = content_length(head);
    if (second == std::string::npos || second > head.find('\r') || length > MAX_BODY) {
        return false;
    }
    request.method = head.substr(0, first);
    request.path   = head.substr(first + 1, second - first - 1);
    return read_up_to(fd, request.body, length);
}

static const char * reason(int status) {
    switch (status) {
        case 200: return "OK";
        case 400: return "Bad Request";
        case 404: return "Not Found";
        case 501: return "Not Implemented";
        case 503: return "Service Unavailable";
        default:  return "Internal Server Error";
    }
}

static bool send_all(int fd, const std::string & text) {
    for (size_t at = 0; at < text.size();) {
        const ssize_t n = send(fd, text.data() + at, text.size() - at, 0);
        if (n <= 0) {
            return false;
        }
        at += size_t(n);
    }
    return true;
}

// in chunks, as the length is not known
static void write_stream(int fd, const std::string & head, const http_response & response) {
    bool whole = send_all(fd, head + "Transfer-Encoding: chunked\r\n\r\n");
    response.stream([&](const std::string & text) {
        char size[16];
        std::snprintf(size, sizeof(size), "%zx", text.size());
        const std::string piece = fault_reply(text);
        whole = whole && send_all(fd, std::string(size) + "\r\n" + piece + "\r\n") && piece.size() == text.size();
        return whole;
    });
    if (whole) {
        send_all(fd, "0\r\n\r\n");
    }
}

static void write_response(int fd, const http_response & response) {
    const std::string head = "HTTP/1.1 " + std::to_string(response.status) + " " + reason(response.status) + "\r\n" +
                             "Connection: close\r\n" +
                             "Content-Type: " + response.type + "\r\n" +
                             "Server: minillm\r\n";
    if (response.stream) {
        write_stream(fd, head, response);
        return;
    }
    const bool is_answer = response.status == 200 && response.body.size() > 64;
    send_all(fd, head + "Content-Length: " + std::to_string(response.body.size()) + "\r\n\r\n" +
                 (is_answer ? fault_reply(response.body) : response.body));
}

void http_server::serve(const http_handler & handle) {
    for (;;) {
        const int fd = accept(listener, nullptr, nullptr);
        if (fd < 0) {
            continue;
        }
        // who connects and says nothing keeps the others waiting
        const timeval patience = { 5, 0 };
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        // each piece of a stream leaves at once; a socket that is a file knows no such option
        const int yes = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));

        http_request request;
        if (read_request(fd, request)) {
            write_response(fd, handle(request));
        }
        close(fd);
    }
}

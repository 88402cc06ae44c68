// HTTP/1.1 as bytes, and what headers may say. No sockets.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/http/http_types.h"

namespace kvasir {

std::string_view reason_phrase(int status);

// How the body's end is found by who reads it.
enum class Framing {
  kLength,   // content-length, the body follows at once
  kChunked,  // pieces with their sizes
  kClose,    // the connection ends: for HTTP/1.0, which knows no chunks
};
enum class KeepAlive { kNo, kYes };

// Status line and headers, with the empty line. kLength takes the size of reply.body. Header values are the caller's
// promise: no line breaks.
std::string head_text(const HttpReply& reply, Framing framing, KeepAlive keep_alive);

// REQUIRES: `bytes` is not empty, since an empty chunk ends the body.
std::string chunk_text(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// A client's x-request-id as it may be logged, kept and sent back: printable, without spaces, at most 128 bytes.
bool is_request_id(std::string_view id);

// What is wrong with a request's head, its last empty line included, so that two who read it might not agree on where
// the request ends, whose it is or to whom it goes: nullopt for nothing. Names and numbers are left to the parser.
struct Refusal {
  int status = 400;
  std::string message;
};
std::optional<Refusal> fault_of(std::string_view head);

// Whether what begins a head cannot become one: it begins with no method, or bytes[from…] have a line's end that is
// none, or a control character.
bool is_hopeless(std::string_view bytes, size_t from = 0);

// The path of a request target, without its query; also of "http://host/path".
std::string_view path_of(std::string_view target);

// Of a target in absolute form, which goes before the Host header; empty: it has none.
std::string_view authority_of(std::string_view target);

// Whether a page of this origin may talk to us: loopback pages, and those the operator named. A page from elsewhere
// that a browser happens to show must not use the model of the person in front of it.
bool is_allowed_origin(std::string_view origin, std::span<const std::string> allowed);

// Whether a page of this origin came from the host that the request is for, as a server's own page does. A page whose
// name was made to point at this machine does, too: true means something only where names or keys are checked.
bool is_origin_of_host(std::string_view origin, std::string_view host);

// Whether the client reads what is compressed with gzip, by its Accept-Encoding header.
bool accepts_gzip(std::string_view accept_encoding);

// Whether a request with this Host header came for us: by a loopback name, or one the operator gave. A page whose own
// name was made to point at this machine shows itself by it. Ports are ignored, and so is a request without Host: no
// browser sends one.
bool is_allowed_host(std::string_view host, std::span<const std::string> allowed);

// The key of a request: of "Authorization: Bearer KEY", else of "X-Api-Key: KEY"; empty: none.
std::string_view key_of(std::string_view authorization, std::string_view x_api_key);

// Whether the name or address is this machine only.
bool is_loopback(std::string_view host);

}  // namespace kvasir

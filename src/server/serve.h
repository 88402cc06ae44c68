// A service behind sockets.
#pragma once

#include <functional>
#include <string>

#include "server/http_server.h"
#include "server/service.h"

namespace kvasir {

// What an HttpServer in front of this service calls. `log` gets a line for each exchange and each pause, from any
// thread; it may be empty. The service outlives the server.
HttpServer::Callbacks callbacks_of(Service& service, std::function<void(const std::string& line)> log);

}  // namespace kvasir

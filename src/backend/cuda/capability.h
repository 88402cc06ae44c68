// What the kernels that run on a device were compiled for, which may be less than it can do.
#pragma once

namespace kvasir::cuda {

// Compute capability, 90 for Hopper's, of the code that this program has for the device in use. Newer devices, for
// which it has none, compile that of 8.0 when it is loaded: what Hopper's code relies on is not in it.
int capability();

}  // namespace kvasir::cuda

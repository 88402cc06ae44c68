// What the kernels for the device in use were compiled for.
#pragma once

namespace kvasir::cuda {

// Compute capability of this program's code for the device in use: 90 on Hopper. Newer devices compile the PTX of 8.0
// when the program is loaded, so Hopper's instructions are not in it.
int capability();

}  // namespace kvasir::cuda

// SPDX-License-Identifier: Apache-2.0
/// A driver without GPUs, in place of libcuda.so.1: it accepts compiled kernels, and runs nothing. cuDNN loads a plan's
/// kernels when it builds the plan.
namespace {

constexpr int success = 0, no_device = 100, not_supported = 801;
int nothing;  // what handles point to

}  // namespace

#define DRIVER_FUNCTION(name, ...)  \
  extern "C" int name(__VA_ARGS__); \
  int name(__VA_ARGS__)

DRIVER_FUNCTION(cuInit, unsigned /*flags*/) { return no_device; }
DRIVER_FUNCTION(cuDeviceGetCount, int* count) {
  *count = 0;
  return no_device;
}
DRIVER_FUNCTION(cuDriverGetVersion, int* version) {
  *version = 13000;
  return success;
}
DRIVER_FUNCTION(cuGetErrorString, int /*error*/, char const** text) {
  *text = "the tests' own driver";
  return success;
}
DRIVER_FUNCTION(cuLibraryLoadData, void** library, void const* /*code, and options*/) {
  *library = &nothing;
  return success;
}
DRIVER_FUNCTION(cuLibraryGetKernel, void** kernel, void* /*library*/, char const* /*name*/) {
  *kernel = &nothing;
  return success;
}
DRIVER_FUNCTION(cuLibraryUnload, void* /*library*/) { return success; }

// cuDNN loads no kernels if it does not find all of these.
#define UNUSED_FUNCTION(name) \
  DRIVER_FUNCTION(name) { return not_supported; }
UNUSED_FUNCTION(cuCtxGetCurrent)
UNUSED_FUNCTION(cuCtxGetDevice)
UNUSED_FUNCTION(cuCtxGetLimit)
UNUSED_FUNCTION(cuCtxPopCurrent)
UNUSED_FUNCTION(cuCtxPushCurrent)
UNUSED_FUNCTION(cuDeviceGet)
UNUSED_FUNCTION(cuDeviceGetAttribute)
UNUSED_FUNCTION(cuDevicePrimaryCtxRelease)
UNUSED_FUNCTION(cuDevicePrimaryCtxReset)
UNUSED_FUNCTION(cuDevicePrimaryCtxRetain)
UNUSED_FUNCTION(cuFuncGetAttribute)
UNUSED_FUNCTION(cuFuncSetAttribute)
UNUSED_FUNCTION(cuGetErrorName)
UNUSED_FUNCTION(cuKernelGetAttribute)
UNUSED_FUNCTION(cuKernelGetFunction)
UNUSED_FUNCTION(cuKernelSetAttribute)
UNUSED_FUNCTION(cuLaunchCooperativeKernel)
UNUSED_FUNCTION(cuLaunchKernel)
UNUSED_FUNCTION(cuLaunchKernelEx)
UNUSED_FUNCTION(cuLibraryLoadFromFile)
UNUSED_FUNCTION(cuLinkAddData)
UNUSED_FUNCTION(cuLinkAddData_v2)
UNUSED_FUNCTION(cuLinkAddFile_v2)
UNUSED_FUNCTION(cuLinkComplete)
UNUSED_FUNCTION(cuLinkCreate)
UNUSED_FUNCTION(cuLinkCreate_v2)
UNUSED_FUNCTION(cuLinkDestroy)
UNUSED_FUNCTION(cuMemcpyDtoH_v2)
UNUSED_FUNCTION(cuModuleGetFunction)
UNUSED_FUNCTION(cuModuleGetGlobal_v2)
UNUSED_FUNCTION(cuModuleLoadData)
UNUSED_FUNCTION(cuModuleLoadDataEx)
UNUSED_FUNCTION(cuModuleLoadFatBinary)
UNUSED_FUNCTION(cuModuleUnload)
UNUSED_FUNCTION(cuOccupancyMaxActiveBlocksPerMultiprocessor)
UNUSED_FUNCTION(cuOccupancyMaxPotentialClusterSize)
UNUSED_FUNCTION(cuStreamGetCtx)
UNUSED_FUNCTION(cuStreamGetGreenCtx)
UNUSED_FUNCTION(cuStreamSynchronize)
UNUSED_FUNCTION(cuTensorMapEncodeIm2col)
UNUSED_FUNCTION(cuTensorMapEncodeTiled)

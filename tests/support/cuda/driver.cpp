// A `libcuda.so.1` for tests: NVIDIA's driver as far as a program in C calls it, with one GPU that is
// the emulator. An image is a shared object of emulated kernels. The variable STUB_DRIVER changes
// what it is, by words such as `capability=80`.

#include "emulator.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

extern "C" int emulated_launch(
    void (*kernel)(const unsigned long long *), const unsigned long long *words, long long grid,
    int threads, int shared, int order, unsigned seed, int garbage, char *message, int room);

namespace {

using u64 = unsigned long long;

enum { FINE, INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, BAD_IMAGE = 209, NOT_FOUND = 500, FAULT = 700 };
enum { SHARED = 97, MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76 };
constexpr size_t MEMORY = 1 << 28;

u64 taken;
int contexts, fault;

long setting(const char *name, long otherwise)
{
    const char *all = getenv("STUB_DRIVER");
    const char *found = all ? strstr(all, (std::string(name) + "=").c_str()) : nullptr;
    return found ? strtol(found + strlen(name) + 1, nullptr, 10) : otherwise;
}

// How many bytes a file has that ends with its sections' table, as those of g++ do.
size_t size_of(const void *image)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
    return head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
}

} // namespace

extern "C" {

int cuInit(unsigned) { return setting("devices", 1) < 0 ? NO_DEVICE : FINE; }

int cuDriverGetVersion(int *version)
{
    *version = (int)setting("release", 13000);
    return FINE;
}

int cuDeviceGetCount(int *count)
{
    *count = (int)setting("devices", 1);
    return FINE;
}

int cuDeviceGet(int *device, int) { return *device = 0; }

int cuDeviceGetName(char *name, int room, int)
{
    snprintf(name, (size_t)room, "Emulated");
    return FINE;
}

int cuDeviceGetAttribute(int *value, int attribute, int)
{
    const int capability = (int)setting("capability", 90);
    switch (attribute) {
    case MAJOR: *value = capability / 10; return FINE;
    case MINOR: *value = capability % 10; return FINE;
    case MULTIPROCESSORS: *value = 2; return FINE;
    case SHARED: *value = 232448; return FINE;
    }
    return INVALID;
}

int cuDevicePrimaryCtxRetain(void **context, int)
{
    *context = &contexts;
    return FINE;
}

int cuDevicePrimaryCtxRelease_v2(int) { return FINE; }

int cuCtxPushCurrent_v2(void *context)
{
    if (fault)
        return fault;
    contexts++;
    return context == &contexts ? FINE : INVALID;
}

int cuCtxPopCurrent_v2(void **) { return --contexts < 0 ? INVALID : FINE; }

int cuModuleLoadData(void **module, const void *image)
{
    if (contexts != 1 || memcmp(image, ELFMAG, SELFMAG))
        return BAD_IMAGE;
    Dl_info self;
    if (!dladdr((void *)cuInit, &self) || !dlopen(self.dli_fname, RTLD_NOW | RTLD_GLOBAL))
        return BAD_IMAGE;
    const int file = memfd_create("kernels", 0);
    const size_t size = size_of(image);
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    *module = write(file, image, size) == (ssize_t)size ? dlopen(path.c_str(), RTLD_NOW) : nullptr;
    close(file);
    return *module ? FINE : BAD_IMAGE;
}

int cuModuleUnload(void *module) { return dlclose(module) ? INVALID : FINE; }

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    const auto *kernels = (const EmulatedKernel *)dlsym(module, "emulated_kernels");
    for (; kernels && kernels->name; kernels++)
        if (!strcmp(kernels->name, name)) {
            *function = (void *)kernels->call;
            return FINE;
        }
    return NOT_FOUND;
}

int cuFuncSetAttribute(void *, int attribute, int value)
{
    return attribute == 8 && value <= 232448 ? FINE : INVALID;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, void *, int, size_t shared)
{
    *count = shared <= (size_t)setting("shared", 232448) ? 1 : 0;
    return FINE;
}

int cuMemGetInfo_v2(size_t *left, size_t *total)
{
    *total = (size_t)setting("memory", MEMORY);
    *left = *total - taken;
    return FINE;
}

int cuMemAlloc_v2(u64 *address, size_t size)
{
    if (!size)
        return INVALID;
    if (taken + size > (size_t)setting("memory", MEMORY))
        return NO_MEMORY;
    taken += size;
    *address = (u64)aligned_alloc(256, (size + 255) / 256 * 256);
    memset((void *)*address, 0xff, size);
    return FINE;
}

int cuMemFree_v2(u64 address)
{
    free((void *)address);
    return FINE;
}

int cuMemsetD8_v2(u64 address, unsigned char value, size_t size)
{
    memset((void *)address, value, size);
    return FINE;
}

int cuMemcpyHtoD_v2(u64 address, const void *array, size_t size)
{
    memcpy((void *)address, array, size);
    return fault;
}

int cuMemcpyDtoH_v2(void *array, u64 address, size_t size)
{
    memcpy(array, (void *)address, size);
    return fault;
}

int cuGetErrorString(int status, const char **said)
{
    *said = status == FAULT ? "an illegal memory access was encountered" : "it is refused";
    return FINE;
}

// As of NVIDIA's what goes wrong in a kernel shows later. A null pointer ends the arguments.
int cuLaunchKernel(
    void *function, unsigned grid, unsigned, unsigned, unsigned threads, unsigned, unsigned,
    unsigned shared, void *, void **arguments, void **)
{
    char message[300];
    u64 words[513];
    for (int i = 0; i < 512 && arguments[i]; i++)
        words[i] = *(const u64 *)arguments[i];
    if (!grid || contexts != 1 || (fault = (int)setting("fault", 0)))
        return grid && contexts == 1 ? FINE : INVALID;
    if (emulated_launch((void (*)(const u64 *))function, words, grid, (int)threads, (int)shared, 0,
                        1, 0xff, message, sizeof message)) {
        fprintf(stderr, "%s\n", message);
        fault = FAULT;
    }
    return FINE;
}

// Only as many blocks as are there at once: one on each of the two multiprocessors.
int cuLaunchCooperativeKernel(
    void *function, unsigned grid, unsigned y, unsigned z, unsigned threads, unsigned ty,
    unsigned tz, unsigned shared, void *stream, void **arguments)
{
    if (grid > 2)
        return INVALID;
    return cuLaunchKernel(
        function, grid, y, z, threads, ty, tz, shared, stream, arguments, nullptr);
}

}

// The GPU through NVIDIA's driver, which is looked for when the first call needs it, so that this
// file is compiled and linked without CUDA. What differs between networks stands behind it.

typedef int64_t i64;
typedef uint64_t u64;

// One architecture's code: it runs on GPUs of this capability, and of later ones of its series.
typedef struct {
    int major, minor;
    const void *code;
} Image;

// together: its blocks wait for each other, so that all have to be resident at once.
typedef struct {
    const char *name;
    int threads, shared, together;
} Kernel;

typedef struct {
    const void *content;
    i64 bytes;
} Parameter;

// What of a network the GPU has to be given once. `release`: of CUDA, that made the images.
typedef struct {
    const Image *images;
    const Kernel *kernels;
    const Parameter *parameters;
    int image_count, kernel_count, parameter_count, release;
    i64 bytes;
} Network;

// What the driver has made of it. `start` is the memory: parameters, arena, scratch, arrays.
typedef struct {
    void *context, *module;
    void **functions;
    int *most_blocks;
    u64 start;
    int is_ready;
} Gpu;

enum { FINE, BAD_COUNT, NO_POINTER, BAD_ARENA, BAD_POINTER, NO_GPU, NO_MEMORY, FAULT };
enum { ALIGNMENT = 256, MOST_BLOCKS = 2147483647, MOST_ARGUMENTS = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char message[400];

// --- the driver

static struct {
    int (*cuInit)(unsigned);
    int (*cuDriverGetVersion)(int *);
    int (*cuDeviceGetCount)(int *);
    int (*cuDeviceGet)(int *, int);
    int (*cuDeviceGetName)(char *, int, int);
    int (*cuDeviceGetAttribute)(int *, int, int);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuDevicePrimaryCtxRelease_v2)(int);
    int (*cuCtxPushCurrent_v2)(void *);
    int (*cuCtxPopCurrent_v2)(void **);
    int (*cuModuleLoadData)(void **, const void *);
    int (*cuModuleUnload)(void *);
    int (*cuModuleGetFunction)(void **, void *, const char *);
    int (*cuFuncSetAttribute)(void *, int, int);
    int (*cuOccupancyMaxActiveBlocksPerMultiprocessor)(int *, void *, int, size_t);
    int (*cuMemGetInfo_v2)(size_t *, size_t *);
    int (*cuMemAlloc_v2)(u64 *, size_t);
    int (*cuMemFree_v2)(u64);
    int (*cuMemsetD8_v2)(u64, unsigned char, size_t);
    int (*cuMemcpyHtoD_v2)(u64, const void *, size_t);
    int (*cuMemcpyDtoH_v2)(void *, u64, size_t);
    int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, void *, void **, void **);
    int (*cuLaunchCooperativeKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned,
                                     unsigned, unsigned, void *, void **);
    int (*cuGetErrorString)(int, const char **);
} driver;

// In the order of the functions above.
static const char *const driver_names[] = {
    "cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
    "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2",
    "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuModuleLoadData", "cuModuleUnload",
    "cuModuleGetFunction", "cuFuncSetAttribute", "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuMemGetInfo_v2", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemsetD8_v2", "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2", "cuLaunchKernel", "cuLaunchCooperativeKernel", "cuGetErrorString",
};

typedef char names_fit_functions[sizeof driver == sizeof driver_names ? 1 : -1];

// Attributes of a device and of a kernel, by the driver's numbers.
enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76, MOST_SHARED = 8 };

static int32_t say(int32_t status, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    return status;
}

// A sentence for a status of this interface; of those of the GPU the last.
static const char *status_text(int32_t code)
{
    if (code < 0 || code > FAULT)
        return UNKNOWN_STATUS;
    return code < NO_GPU ? statuses[code] : message;
}

// What the driver says of a status of its own.
static const char *reason(int code)
{
    const char *said = 0;
    if (driver.cuGetErrorString(code, &said) || !said)
        return "unknown error";
    return said;
}

static int32_t find_driver(void)
{
    if (driver.cuInit)
        return FINE;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return say(NO_GPU, "no driver of an NVIDIA GPU: %s", dlerror());
    void *found[sizeof driver_names / sizeof *driver_names];
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        if (!(found[i] = dlsym(library, driver_names[i])))
            return say(NO_GPU, "the driver is too old: it has no %s", driver_names[i]);
    memcpy(&driver, found, sizeof found);
    return FINE;
}

// --- the network on the GPU

// The code for the GPU, of several the latest; null if there is none.
static const Image *fitting(const Network *network, int major, int minor)
{
    const Image *best = 0;
    for (const Image *i = network->images; i < network->images + network->image_count; i++)
        if (i->major == major && i->minor <= minor && (!best || i->minor > best->minor))
            best = i;
    return best;
}

static int32_t load(Gpu *gpu, const Network *network, int device)
{
    int code, major = 0, minor = 0, multiprocessors = 0;
    driver.cuDeviceGetAttribute(&major, MAJOR, device);
    driver.cuDeviceGetAttribute(&minor, MINOR, device);
    driver.cuDeviceGetAttribute(&multiprocessors, MULTIPROCESSORS, device);
    const Image *image = fitting(network, major, minor);
    if (!image) {
        char name[100] = "";
        driver.cuDeviceGetName(name, sizeof name, device);
        return say(NO_GPU, "this is code for " ARCHITECTURES ", the GPU %s is sm_%d%d", name,
                   major, minor);
    }
    if ((code = driver.cuModuleLoadData(&gpu->module, image->code)))
        return say(NO_GPU, "the driver does not load the code: %s", reason(code));
    for (int i = 0; i < network->kernel_count; i++) {
        const Kernel *kernel = &network->kernels[i];
        void **function = &gpu->functions[i];
        int resident = 0;
        if ((code = driver.cuModuleGetFunction(function, gpu->module, kernel->name)) ||
            (code = driver.cuFuncSetAttribute(*function, MOST_SHARED, kernel->shared)) ||
            (code = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                 &resident, *function, kernel->threads, (size_t)kernel->shared)))
            return say(NO_GPU, "%s: %s", kernel->name, reason(code));
        if (!resident)
            return say(NO_GPU, "%s: its %d bytes of shared memory are not there", kernel->name,
                       kernel->shared);
        gpu->most_blocks[i] = kernel->together ? resident * multiprocessors : MOST_BLOCKS;
    }
    return FINE;
}

static i64 rounded(i64 bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

// All memory at once; parameters are put at its start, the rest is zero.
static int32_t fill(Gpu *gpu, const Network *network)
{
    size_t left = 0, total = 0;
    driver.cuMemGetInfo_v2(&left, &total);
    int code = driver.cuMemAlloc_v2(&gpu->start, (size_t)network->bytes);
    if (code) {
        gpu->start = 0;
        return say(NO_MEMORY, "%lld bytes of the GPU's memory are required, %zu of %zu are free",
                   (long long)network->bytes, left, total);
    }
    code = driver.cuMemsetD8_v2(gpu->start, 0, (size_t)network->bytes);
    u64 at = gpu->start;
    for (int i = 0; i < network->parameter_count && !code; i++) {
        const Parameter *parameter = &network->parameters[i];
        if (parameter->bytes)
            code = driver.cuMemcpyHtoD_v2(at, parameter->content, (size_t)parameter->bytes);
        at += (u64)rounded(parameter->bytes);
    }
    return code ? say(FAULT, "the parameters cannot be copied: %s", reason(code)) : FINE;
}

// Leaves nothing behind of a start that failed.
static void give_up(Gpu *gpu, int device)
{
    void *context;
    if (gpu->start)
        driver.cuMemFree_v2(gpu->start);
    if (gpu->module)
        driver.cuModuleUnload(gpu->module);
    driver.cuCtxPopCurrent_v2(&context);
    driver.cuDevicePrimaryCtxRelease_v2(device);
    gpu->start = 0;
    gpu->module = 0;
}

// Makes the GPU the one of this thread; the first call that succeeds loads the network.
static int32_t enter(Gpu *gpu, const Network *network)
{
    int code, count = 0, device = 0, release = 0;
    if (gpu->is_ready) {
        code = driver.cuCtxPushCurrent_v2(gpu->context);
        return code ? say(FAULT, "the GPU cannot be used any more: %s", reason(code)) : FINE;
    }
    int32_t status = find_driver();
    if (status)
        return status;
    if ((code = driver.cuInit(0)) || (code = driver.cuDeviceGetCount(&count)))
        return say(NO_GPU, "the driver cannot be used: %s", reason(code));
    if (!count)
        return say(NO_GPU, "the driver knows no GPU");
    driver.cuDriverGetVersion(&release);
    if (release / 1000 < network->release)
        return say(NO_GPU, "the driver is too old: it is of CUDA %d.%d, this code needs %d.0",
                   release / 1000, release % 1000 / 10, network->release);
    if ((code = driver.cuDeviceGet(&device, 0)) ||
        (code = driver.cuDevicePrimaryCtxRetain(&gpu->context, device)))
        return say(NO_GPU, "the GPU cannot be used: %s", reason(code));
    if ((code = driver.cuCtxPushCurrent_v2(gpu->context))) {
        driver.cuDevicePrimaryCtxRelease_v2(device);
        return say(NO_GPU, "the GPU cannot be used: %s", reason(code));
    }
    status = load(gpu, network, device);
    if (!status)
        status = fill(gpu, network);
    if (status)
        give_up(gpu, device);
    gpu->is_ready = !status;
    return status;
}

static void leave(void)
{
    void *context;
    driver.cuCtxPopCurrent_v2(&context);
}

// --- a call

// Begins a kernel with arguments of 64 bits: addresses, then sizes.
static int32_t launch(Gpu *gpu, const Kernel *kernel, int number, i64 tiles, const u64 *given,
                      size_t count)
{
    void *arguments[MOST_ARGUMENTS + 1];
    if (tiles <= 0)
        return FINE;
    for (size_t i = 0; i < count; i++)
        arguments[i] = (void *)&given[i];
    arguments[count] = 0; // nothing reads what is behind
    i64 most = gpu->most_blocks[number];
    unsigned grid = (unsigned)(tiles < most ? tiles : most), threads = (unsigned)kernel->threads;
    unsigned shared = (unsigned)kernel->shared;
    void *function = gpu->functions[number];
    int code = kernel->together
                   ? driver.cuLaunchCooperativeKernel(function, grid, 1, 1, threads, 1, 1, shared,
                                                      0, arguments)
                   : driver.cuLaunchKernel(function, grid, 1, 1, threads, 1, 1, shared, 0,
                                           arguments, 0);
    return code ? say(FAULT, "%s cannot be launched: %s", kernel->name, reason(code)) : FINE;
}

static int32_t upload(u64 address, const void *array, i64 bytes)
{
    int code = bytes > 0 ? driver.cuMemcpyHtoD_v2(address, array, (size_t)bytes) : 0;
    return code ? say(FAULT, "an input cannot be copied: %s", reason(code)) : FINE;
}

// Waits for the kernels; what went wrong in one of them shows here.
static int32_t download(void *array, u64 address, i64 bytes)
{
    int code = bytes > 0 ? driver.cuMemcpyDtoH_v2(array, address, (size_t)bytes) : 0;
    return code ? say(FAULT, "a kernel failed, start the program anew: %s", reason(code)) : FINE;
}

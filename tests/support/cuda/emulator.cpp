// Runs a kernel's threads as fibers of one thread of the CPU, block after block.
//
// A fiber runs threads one after another until one of them waits; the next thread then begins on a
// fiber of its own. So kernels whose threads never wait run as a plain loop. A block whose threads
// all wait for the other blocks stays as it is while the next block begins.
//
// What ends a launch early (threads that wait for ones that left, an access outside of memory) is
// described in words; its fibers are forgotten.

#include "emulator.h"

#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <sys/mman.h>
#include <vector>

namespace {

using i64 = long long;
using u64 = unsigned long long;

constexpr size_t PAGE = 4096;
constexpr size_t STACK = 64 * 1024;
constexpr size_t SHARED = 256 * 1024;

// Pages with one behind them, and one before, that nobody may touch.
char *guarded(size_t size)
{
    char *start = (char *)mmap(
        nullptr, size + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED || mprotect(start + PAGE, size, PROT_READ | PROT_WRITE))
        abort();
    return start + PAGE;
}

// --- fibers

// Goes on where `to` was left; `from` is told where this one is left.
extern "C" void emulated_switch(void **from, void *to);

asm(R"(
.text
.globl emulated_switch
.type emulated_switch, @function
emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulated_switch, .-emulated_switch
)");

// Where a fiber is left that begins with `entry`.
void *fresh(char *stack, void (*entry)())
{
    void **top = (void **)(stack + STACK) - 2; // as behind a call: 8 bytes before a multiple of 16
    *top = (void *)entry;
    return top - 6;
}

// --- ThreadSanitizer, which is told of each thread, and of who waited for whom

#ifdef EMULATED_RACES

extern "C" {
void *__tsan_get_current_fiber();
void *__tsan_create_fiber(unsigned);
void __tsan_destroy_fiber(void *);
void __tsan_switch_to_fiber(void *, unsigned);
void __tsan_acquire(void *);
void __tsan_release(void *);
void AnnotateIgnoreReadsBegin(const char *, int);
void AnnotateIgnoreReadsEnd(const char *, int);
void AnnotateIgnoreWritesBegin(const char *, int);
void AnnotateIgnoreWritesEnd(const char *, int);
}

// Memory that a thread has used would look like shared with the one that gets it next.
constexpr bool REUSES = false;

void *racing_main() { return __tsan_get_current_fiber(); }
void *racing_thread() { return __tsan_create_fiber(0); }
void end_racing_thread(void *fiber) { __tsan_destroy_fiber(fiber); }
void switch_racing(void *fiber) { __tsan_switch_to_fiber(fiber, 1); }
void arrive(void *place) { __tsan_release(place); }
void see_arrived(void *place) { __tsan_acquire(place); }

// Within, what the emulator itself reads and writes is nobody's.
struct Unseen {
    Unseen()
    {
        AnnotateIgnoreReadsBegin("", 0);
        AnnotateIgnoreWritesBegin("", 0);
    }
    ~Unseen()
    {
        AnnotateIgnoreReadsEnd("", 0);
        AnnotateIgnoreWritesEnd("", 0);
    }
};

#else

constexpr bool REUSES = true;

void *racing_main() { return nullptr; }
void *racing_thread() { return nullptr; }
void end_racing_thread(void *) {}
void switch_racing(void *) {}
void arrive(void *) {}
void see_arrived(void *) {}
struct Unseen {
    Unseen() {}
};

#endif

// --- threads and blocks

enum class Order { FORWARDS, BACKWARDS, SHUFFLED };
enum class State { WAITING, RUNNING, LEFT };

struct Copy {
    void *to;
    const void *from;
    int bytes, group;
    bool is_there;
};

struct LiveBlock;

struct Thread {
    int index;
    LiveBlock *block;
    State state = State::RUNNING;
    const char *where = ""; // the function that it waits in
    void *left_at = nullptr;
    char *stack = nullptr;
    unsigned meetings = 0; // of its warp
    int group = 0;
    std::vector<Copy> copies = {};
    void *racing = nullptr;
};

struct Warp {
    int arrived = 0;
    const char *which = nullptr;
    EmulatedSlots slots[2]; // in turns: some may still read those of the meeting before
};

struct LiveBlock {
    i64 index;
    char *shared, *memory;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<int> order;
    int begun = 0, left = 0, arrived = 0, elsewhere = 0;
    unsigned meetings = 0;
    char met[2]; // in turns: a thread may arrive at one meeting before others leave the last one
};

struct Launch {
    void (*kernel)(const u64 *);
    const u64 *words;
    i64 grid, begun = 0, left = 0;
    int threads, shared;
    unsigned char garbage;
    Order order;
    std::minstd_rand random;
    std::vector<std::unique_ptr<LiveBlock>> blocks; // those with threads
    std::vector<Thread *> ready;
    i64 step = 1, start = 0; // of shuffled blocks
    char *message;
    int room;
    void *main = nullptr, *racing = nullptr;
    std::vector<void *> racing_threads;
    unsigned meetings = 0; // of all blocks
    char met[2], ended;
    bool failed = false;
};

Launch *launch;
Thread *running;
std::vector<char *> stacks, shared_memories;

// Has kernels see that this one runs.
void show(const Thread *thread)
{
    const LiveBlock *block = thread->block;
    emulated_thread = {thread->index, block->index, launch->grid, block->shared};
}

void switch_to(void **from, Thread *thread)
{
    running = thread;
    show(thread);
    switch_racing(thread->racing);
    emulated_switch(from, thread->left_at);
}

[[noreturn]] void switch_to_main()
{
    void *nowhere;
    switch_racing(launch->racing);
    emulated_switch(&nowhere, launch->main);
    abort();
}

[[noreturn]] void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(launch->message, launch->room, format, arguments);
    va_end(arguments);
    launch->failed = true;
    switch_to_main();
}

char *taken(std::vector<char *> &kept, size_t size)
{
    if (kept.empty())
        return guarded(size);
    char *memory = kept.back();
    kept.pop_back();
    return memory;
}

std::vector<int> order_of(int count)
{
    std::vector<int> order(count);
    for (int i = 0; i < count; i++)
        order[i] = launch->order == Order::BACKWARDS ? count - 1 - i : i;
    if (launch->order == Order::SHUFFLED)
        for (int i = count - 1; i > 0; i--)
            std::swap(order[i], order[launch->random() % (i + 1)]);
    return order;
}

i64 block_at(i64 turn)
{
    if (launch->order == Order::BACKWARDS)
        return launch->grid - 1 - turn;
    return (i64)(((__int128)turn * launch->step + launch->start) % launch->grid);
}

void begin_block()
{
    auto block = std::make_unique<LiveBlock>();
    block->index = block_at(launch->begun++);
    block->memory = taken(shared_memories, SHARED);
    const size_t size = (launch->shared + 15) / 16 * 16;
    block->shared = block->memory + SHARED - size;
    memset(block->shared - 16, launch->garbage, size + 16);
    block->order = order_of(launch->threads);
    block->warps.resize((launch->threads + 31) / 32);
    block->threads.reserve(launch->threads);
    for (int i = 0; i < launch->threads; i++)
        block->threads.push_back(Thread{i, block.get()});
    if (!launch->racing_threads.empty())
        for (Thread &thread : block->threads) {
            thread.racing = launch->racing_threads.back();
            launch->racing_threads.pop_back();
        }
    launch->blocks.push_back(std::move(block));
}

void end_block(LiveBlock *block)
{
    if (REUSES)
        shared_memories.push_back(block->memory);
    launch->left++;
    auto &blocks = launch->blocks;
    for (size_t i = 0; i < blocks.size(); i++)
        if (blocks[i].get() == block) {
            std::swap(blocks[i], blocks.back());
            blocks.pop_back();
            return;
        }
}

// A thread that nobody has run yet, or none.
Thread *next_new()
{
    for (;;) {
        LiveBlock *block = launch->blocks.empty() ? nullptr : launch->blocks.back().get();
        if (block && block->begun < launch->threads)
            return &block->threads[block->order[block->begun++]];
        const bool is_free = !block || block->elsewhere == launch->threads;
        if (!is_free || launch->begun == launch->grid)
            return nullptr;
        begin_block();
    }
}

Thread *next_ready()
{
    auto &ready = launch->ready;
    if (ready.empty())
        return nullptr;
    Thread *thread = ready.back();
    ready.pop_back();
    return thread;
}

// Have threads go on before all others: of what two warps do between two meetings of the block all of
// the one comes before all of the other, in one order or the other.
void release(LiveBlock *block, int first, int count)
{
    const std::vector<int> order = order_of(count);
    for (auto i = order.rbegin(); i != order.rend(); i++) {
        Thread *thread = &block->threads[first + *i];
        thread->state = State::RUNNING;
        launch->ready.push_back(thread);
    }
}

// Who waits for whom, where nobody can go on.
[[noreturn]] void fail_waiting()
{
    for (auto &block : launch->blocks)
        for (Thread &thread : block->threads)
            if (thread.state == State::WAITING)
                fail("thread %d of block %lld waits in %s(): of the block's threads %d have left, "
                     "of its warp %d are there",
                     thread.index, block->index, thread.where, block->left,
                     block->warps[thread.index / 32].arrived);
    abort();
}

void run_threads();

// Gives a new thread a fiber that starts with it.
void begin(Thread *thread)
{
    thread->stack = taken(stacks, STACK);
    thread->left_at = fresh(thread->stack, run_threads);
}

// Leaves the thread that runs for another; `from` is told where.
void go_on(void **from)
{
    Thread *thread = next_ready();
    if (thread == nullptr) {
        thread = next_new();
        if (thread == nullptr)
            fail_waiting();
        begin(thread);
    }
    if (thread != running)
        switch_to(from, thread);
}

void wait(const char *where)
{
    Thread *self = running;
    self->state = State::WAITING;
    self->where = where;
    go_on(&self->left_at);
}

void leave()
{
    Thread *self = running;
    if (!self->copies.empty())
        fail("thread %d of block %lld leaves with copies under way", self->index,
             self->block->index);
    self->state = State::LEFT;
    arrive(&launch->ended);
    if (++self->block->left == launch->threads)
        end_block(self->block);
}

// The thread that goes on when one has left; a new one on its fiber, which `here` is, if it may.
Thread *next_behind(char *here)
{
    const Unseen emulator;
    leave();
    Thread *thread = next_ready();
    if (thread == nullptr && (thread = next_new()) != nullptr) {
        thread->stack = here;
        if (!REUSES)
            begin(thread);
    }
    return thread;
}

// What a fiber does: threads from their beginning to their end.
void run_threads()
{
    char *here = running->stack;
    for (;;) {
        launch->kernel(launch->words);
        Thread *thread = next_behind(here);
        if (thread != nullptr && thread->stack == here) {
            running = thread;
            show(thread);
            continue;
        }
        // Nothing runs on this fiber any more, but for the switch to another.
        if (REUSES)
            stacks.push_back(here);
        void *nowhere;
        if (thread != nullptr)
            switch_to(&nowhere, thread);
        if (launch->left < launch->grid)
            fail_waiting();
        switch_to_main();
    }
}

// --- faults

constexpr int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

void report(int signal, siginfo_t *info, void *)
{
    const int thread = emulated_thread.index;
    const i64 block = emulated_thread.block;
    if (signal == SIGFPE)
        fail("thread %d of block %lld divides by zero", thread, block);
    if (signal == SIGILL)
        fail("thread %d of block %lld reads or writes at a wrong alignment", thread, block);
    fail("thread %d of block %lld reads or writes outside of memory, at address %llu", thread,
         block, (unsigned long long)(uintptr_t)info->si_addr);
}

// Within, faults of this thread end the launch.
class Faults {
    struct sigaction before[4];
    stack_t stack_before;

public:
    Faults()
    {
        static char *memory = guarded(STACK);
        stack_t stack = {memory, 0, STACK};
        sigaltstack(&stack, &stack_before);
        struct sigaction action = {};
        action.sa_sigaction = report;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        for (int i = 0; i < 4; i++)
            sigaction(FAULTS[i], &action, &before[i]);
    }
    ~Faults()
    {
        for (int i = 0; i < 4; i++)
            sigaction(FAULTS[i], &before[i], nullptr);
        sigaltstack(&stack_before, nullptr);
    }
};

} // namespace

// --- what kernels call

EmulatedThread emulated_thread;

void emulated_meet()
{
    const Unseen here;
    LiveBlock *block = running->block;
    char *place = &block->met[block->meetings % 2];
    arrive(place);
    if (++block->arrived == launch->threads) {
        block->arrived = 0;
        block->meetings++;
        release(block, 0, launch->threads);
    }
    wait("meet");
    see_arrived(place);
}

void emulated_meet_all(unsigned *arrived)
{
    emulated_meet();
    const Unseen here;
    char *place = &launch->met[launch->meetings % 2];
    arrive(place);
    LiveBlock *own = running->block;
    if (running->index == 0 && own->index == 0)
        *arrived ^= 0x80000000u;
    own->elsewhere++;
    i64 there = 0;
    for (auto &block : launch->blocks)
        there += block->elsewhere == launch->threads;
    if (there == launch->grid) {
        launch->meetings++;
        for (auto &block : launch->blocks) { // in the order in which they began
            block->elsewhere = 0;
            release(block.get(), 0, launch->threads);
        }
    }
    wait("meet_all");
    see_arrived(place);
}

const EmulatedSlots *emulated_exchange(const char *which, const void *brought, int bytes)
{
    const Unseen here;
    Thread *self = running;
    LiveBlock *block = self->block;
    const int number = self->index / 32, first = number * 32;
    Warp &warp = block->warps[number];
    EmulatedSlots &slots = warp.slots[self->meetings++ % 2];
    memcpy(slots.lane[self->index - first], brought, bytes);
    arrive(&slots);
    if (warp.arrived++ == 0)
        warp.which = which;
    else if (strcmp(warp.which, which))
        fail("threads of warp %d of block %lld meet in %s() and in %s()", number, block->index,
             warp.which, which);
    const int count = launch->threads - first < 32 ? launch->threads - first : 32;
    if (warp.arrived == count) {
        warp.arrived = 0;
        release(block, first, count);
    }
    wait(which);
    see_arrived(&slots);
    return &slots;
}

static void perform(const Copy &copy)
{
    if (copy.is_there)
        memcpy(copy.to, copy.from, copy.bytes);
    else
        memset(copy.to, 0, copy.bytes);
}

// At its wait, which is as late as it may be; threads that run backwards copy at once.
void emulated_copy(void *to, const void *from, int bytes, bool is_there)
{
    const uintptr_t misfit = ((uintptr_t)to | (is_there ? (uintptr_t)from : 0)) % bytes;
    if (misfit)
        fail("thread %d of block %lld copies %d bytes at a wrong alignment", running->index,
             running->block->index, bytes);
    const Copy copy = {to, from, bytes, running->group, is_there};
    if (launch->order == Order::BACKWARDS)
        perform(copy);
    else
        running->copies.push_back(copy);
}

void emulated_group_copies() { running->group++; }

void emulated_wait_for_copies(int later)
{
    auto &copies = running->copies;
    size_t done = 0;
    while (done < copies.size() && copies[done].group < running->group - later)
        perform(copies[done++]);
    copies.erase(copies.begin(), copies.begin() + (long)done);
}

// Runs a kernel; 0, or 1 with what went wrong in `message`.
extern "C" int emulated_launch(
    void (*kernel)(const u64 *), const u64 *words, i64 grid, int threads, int shared, int order,
    unsigned seed, int garbage, char *message, int room)
{
    Launch made = {};
    made.kernel = kernel;
    made.words = words;
    made.grid = grid;
    made.threads = threads;
    made.shared = shared;
    made.garbage = (unsigned char)garbage;
    made.order = (Order)order;
    made.random.seed(seed);
    made.message = message;
    made.room = room;
    if (made.order == Order::SHUFFLED) {
        made.start = made.random() % grid;
        made.step = grid > 2 && grid % 1000003 ? 1000003 : 1; // a prime: every block is met
    }
    launch = &made;
    running = nullptr;
    Faults faults;
    const Unseen here;
    made.racing = racing_main();
    if (!REUSES)
        for (i64 i = 0; i < grid * threads; i++)
            made.racing_threads.push_back(racing_thread());
    const std::vector<void *> racing_threads = made.racing_threads;
    Thread *first = next_new();
    begin(first);
    switch_to(&made.main, first);
    see_arrived(&made.ended);
    for (void *racing : racing_threads)
        end_racing_thread(racing);
    for (auto &block : made.blocks) { // those of a launch that failed
        shared_memories.push_back(block->memory);
        for (Thread &thread : block->threads)
            if (thread.stack != nullptr && thread.state != State::LEFT)
                stacks.push_back(thread.stack);
    }
    return made.failed;
}

// Repeats launches that were written down: ThreadSanitizer sees all of their threads.
//
//     memory SIZE FILE                                what a part of the device's memory holds
//     launch KERNEL GRID THREADS SHARED WORD…         a word is a number, or PART+DISTANCE

#include "emulator.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using u64 = unsigned long long;

extern "C" {
extern const EmulatedKernel emulated_kernels[];
int emulated_launch(
    void (*kernel)(const u64 *), const u64 *words, long long grid, int threads, int shared,
    int order, unsigned seed, int garbage, char *message, int room);
}

static std::vector<char *> memories;

static void read_memory(std::istream &line)
{
    size_t size;
    std::string file;
    line >> size >> file;
    char *memory = (char *)aligned_alloc(256, (size + 256) / 256 * 256);
    std::ifstream(file, std::ios::binary).read(memory, (std::streamsize)size);
    memories.push_back(memory);
}

static u64 word_of(const std::string &text)
{
    const size_t plus = text.find('+');
    if (plus == std::string::npos)
        return strtoull(text.c_str(), nullptr, 10);
    const size_t part = strtoull(text.c_str(), nullptr, 10);
    return (u64)(memories.at(part) + strtoull(text.c_str() + plus + 1, nullptr, 10));
}

static bool launch(std::istream &line)
{
    std::string name, text;
    long long grid;
    int threads, shared;
    line >> name >> grid >> threads >> shared;
    std::vector<u64> words;
    while (line >> text)
        words.push_back(word_of(text));
    const EmulatedKernel *kernel = emulated_kernels;
    while (kernel->name != nullptr && name != kernel->name)
        kernel++;
    char message[512];
    if (!emulated_launch(
            kernel->call, words.data(), grid, threads, shared, 0, 1, 0xff, message, sizeof message))
        return true;
    std::cerr << name << ": " << message << "\n";
    return false;
}

int main(int, char **arguments)
{
    std::ifstream lines(arguments[1]);
    std::string text, what;
    while (std::getline(lines, text)) {
        std::istringstream line(text);
        line >> what;
        if (what == "memory")
            read_memory(line);
        else if (!launch(line))
            return 1;
    }
    return 0;
}

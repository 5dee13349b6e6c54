/* A training by MPI processes, without Python: each has every so many-th sample of a minibatch.
 *
 *     mpirun -n 4 mpi_train DATA EPOCHS STATE
 *
 * DATA is text, 64 pixels of 0 to 16 and a digit a line. step.h and the library are of
 * `graphc compile --train --members`, which knows no MPI: the function that adds is here. The first
 * process prints the loss of each epoch, and writes what was learnt to STATE.
 */
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "step.h"

enum { PIXELS = 64, CLASSES = 10, MOST = 2000 };
#define DROPOUT 0.2

static float pixels[MOST][PIXELS], labels[MOST][CLASSES];

/* What the step calls for its sums: statistics of BatchNormalization, of f64, and gradients. MPI says
 * by itself what goes wrong, and ends the job. */
static int32_t add(void *context, int64_t sum, void *data, int64_t count, int32_t bytes)
{
    (void)sum;
    MPI_Datatype kind = bytes == 8 ? MPI_DOUBLE : MPI_FLOAT;
    if (count > INT_MAX)
        return 1;
    return MPI_Allreduce(MPI_IN_PLACE, data, (int)count, kind, MPI_SUM, *(MPI_Comm *)context);
}

static int read_samples(const char *path)
{
    FILE *file = fopen(path, "r");
    int count = 0, digit;
    if (!file)
        return -1;
    for (; count < MOST; count++) {
        for (int i = 0; i < PIXELS; i++)
            if (fscanf(file, "%f", &pixels[count][i]) != 1)
                goto end;
        if (fscanf(file, "%d", &digit) != 1 || digit < 0 || digit >= CLASSES)
            goto end;
        labels[count][digit] = 1;
    }
end:
    fclose(file);
    return count;
}

/* Samples first, first + by, … below end, side by side; how many. */
static int64_t gather(int first, int end, int by, float x[][PIXELS], float y[][CLASSES])
{
    int64_t n = 0;
    for (int i = first; i < end; i += by, n++) {
        memcpy(x[n], pixels[i], sizeof x[n]);
        memcpy(y[n], labels[i], sizeof y[n]);
    }
    return n;
}

int main(int argc, char **argv)
{
    static float x[STEP_N_BOUND][PIXELS], y[STEP_N_BOUND][CLASSES];
    int rank, size, samples;
    MPI_Comm all = MPI_COMM_WORLD;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    samples = argc == 4 ? read_samples(argv[1]) : -1;
    void *state = aligned_alloc(64, STEP_STATE_BYTES);
    void *arena = aligned_alloc(64, (STEP_ARENA_BYTES / 64 + 1) * 64);
    if (samples <= 0 || !state || !arena) {
        fprintf(stderr, "usage: mpirun -n MEMBERS mpi_train DATA EPOCHS STATE\n");
        MPI_Abort(all, 2);
    }
    memcpy(state, step_start(), STEP_STATE_BYTES);
    graphc_members members = {add, &all, rank, size};
    int64_t steps = 0;
    for (int epoch = 1; epoch <= atoi(argv[2]); epoch++) {
        double total = 0;
        for (int first = 0; first < samples; first += STEP_MINIBATCH, steps++) {
            int end = first + STEP_MINIBATCH < samples ? first + STEP_MINIBATCH : samples;
            /* The numbers are those of the minibatch of all, the last of which is shorter. */
            double all_samples = end - first;
            double momentum = pow(STEP_NUM_MOMENTUM, all_samples / STEP_MINIBATCH);
            int64_t n = gather(first + rank, end, size, x, y);
            float loss, wrong;
            int32_t code = step_run(n, x[0], y[0], all_samples, DROPOUT, steps,
                STEP_NUM_LEARNING_RATE, momentum, &loss, &wrong, state, arena, &members);
            if (code) {
                fprintf(stderr, "member %d: %s\n", rank, step_status(code));
                MPI_Abort(all, 1);
            }
            total += loss; /* of all members */
        }
        if (rank == 0)
            printf("epoch %d: loss %.6f\n", epoch, total / samples);
    }
    if (rank == 0) {
        FILE *file = fopen(argv[3], "wb");
        if (!file || fwrite(state, 1, STEP_STATE_BYTES, file) != STEP_STATE_BYTES || fclose(file)) {
            perror(argv[3]);
            MPI_Abort(all, 1);
        }
    }
    return MPI_Finalize();
}

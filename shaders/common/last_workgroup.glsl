// The workgroup that is done last of those that count in a word, which is 0 at first. Nobody waits for
// another, so that any order of the workgroups will do.
//
// Before the include: `done`, a coherent buffer of words. What the workgroups write for the last one is in
// coherent buffers, too.

#ifndef VKNN_LAST_WORKGROUP_GLSL
#define VKNN_LAST_WORKGROUP_GLSL

shared int done_before;

// True in all lanes of the last of `count` workgroups to come here that have the word `counter`. All lanes of a
// workgroup come here, and it is in no loop that others leave earlier.
bool is_last_workgroup(int counter, int count, int lane) {
    memoryBarrierBuffer();
    barrier();
    if (lane == 0) done_before = atomicAdd(done[counter], 1);
    barrier();
    memoryBarrierBuffer();
    return done_before == count - 1;
}

#endif

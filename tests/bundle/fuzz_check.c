/* Tests of check.c without a device, to be built with -fsanitize=address,undefined.
 *
 *     fuzz_check open FILE...              a line each: status, and the sentence
 *     fuzz_check pinned FILE SHA256        the same of one that has to have this sum
 *     fuzz_check mutate FILE COUNT SEED    COUNT mutations; of those that are let through, all is used
 *     fuzz_check flips FILE END SUMS       where a changed byte in front of END is let through; SUMS 1: with
 *                                          sums made right
 *     fuzz_check sums FILE [FIRST LAST]    CRC-32 and SHA-256 of the file's first bytes, for each number
 *
 * A mutation that is let through is walked as a run would: whatever leaves its place ends the program.
 */
#define _POSIX_C_SOURCE 200112L
#include "check.c"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Use of all that was let through ---- */

#define MUST(ok) ((ok) ? (void)0 : let_through(#ok, __LINE__))

static void let_through(const char *what, int line) {
    fprintf(stderr, "let through: not %s, line %d\n", what, line);
    abort();
}

static volatile uint32_t used; /* so that no read is left out */

static void use(const void *bytes, uint64_t size) {
    const uint8_t *at = (const uint8_t *)bytes;
    if (size) used += at[0] + at[size / 2] + at[size - 1];
}

static void use_text(const bundle *b, uint32_t offset) {
    used += (uint32_t)strlen(bundle_string(b, offset));
}

static const vkb_buffer *use_buffer(const bundle *b, const vkb_plan *p, uint32_t index) {
    const vkb_buffer *buffer = b->buffers + p->first_buffers + index;
    MUST(index < p->buffers);
    use_text(b, buffer->name);
    MUST(buffer->nbytes);
    if (buffer->role == VKB_ROLE_WEIGHT) {
        const vkb_blob *blob = b->blobs + buffer->blob;
        use(b->data + blob->offset, blob->nbytes);
        MUST(blob->nbytes <= buffer->nbytes && blob->offset % 256 == 0);
    } else MUST(buffer->offset + buffer->nbytes <= p->arenas[buffer->role] && buffer->offset % 4 == 0);
    return buffer;
}

static void use_dispatch(const bundle *b, const vkb_plan *p, const vkb_step *step) {
    const vkb_pipeline *pipeline = b->pipelines + step->pipeline;
    const vkb_module *module = b->modules + pipeline->module;
    uint64_t size = 1;
    use_text(b, pipeline->kernel);
    use(b->spirv + module->offset, module->nbytes);
    MUST(((uintptr_t)b->spirv + module->offset) % 4 == 0 && module->nbytes % 4 == 0);
    EACH(constant, c, b->constants + pipeline->first_constants, pipeline->constants) {
        use(c, sizeof *c);
        if (c->id < 3) MUST(c->word && c->word <= p->group_size[c->id]), size *= c->word;
    }
    MUST(size <= p->group_invocations);
    MUST(step->bindings == pipeline->slots && step->bindings <= 32);
    for (uint32_t i = 0; i < step->bindings; i++) {
        const vkb_binding *binding = b->bindings + step->first_bindings + i;
        const vkb_slot *slot = b->slots + pipeline->first_slots + i;
        const vkb_buffer *buffer = use_buffer(b, p, binding->buffer);
        MUST(!(slot->access & 2) || buffer->role != VKB_ROLE_WEIGHT);
        MUST(slot->view == STORAGE_BUFFER ? !binding->format && buffer->nbytes <= p->storage_range
             : slot->view == UNIFORM_TEXEL || slot->view == STORAGE_TEXEL);
    }
    use(b->push + step->push, pipeline->push_bytes);
    for (int i = 0; i < 3; i++) MUST(step->groups[i] && step->groups[i] <= p->group_count[i]);
}

static void use_step(const bundle *b, const vkb_plan *p, const vkb_step *step) {
    use_text(b, step->label);
    use_text(b, step->op);
    if (step->kind == VKB_STEP_DISPATCH) use_dispatch(b, p, step);
    else if (step->kind == VKB_STEP_COPY) {
        const vkb_buffer *source = use_buffer(b, p, step->source), *target = use_buffer(b, p, step->target);
        MUST(target->role != VKB_ROLE_WEIGHT && step->nbytes);
        MUST(step->source_offset + step->nbytes <= source->nbytes && step->source_offset < source->nbytes);
        MUST(step->target_offset + step->nbytes <= target->nbytes && step->target_offset < target->nbytes);
    } else if (step->kind == VKB_STEP_FILL) {
        const vkb_buffer *target = use_buffer(b, p, step->target);
        MUST(target->role != VKB_ROLE_WEIGHT && target->nbytes % 4 == 0);
    } else MUST(step->kind == VKB_STEP_BARRIER);
}

static void use_port(const bundle *b, const vkb_plan *p, const vkb_port *port) {
    static const uint64_t sizes[] = VKB_TYPE_BYTES;
    uint64_t bytes = sizes[port->type];
    use_text(b, port->name);
    use_text(b, port->layout);
    use_text(b, port->picture);
    for (uint32_t i = 0; i < port->rank; i++) bytes *= port->dims[i];
    MUST(bytes <= use_buffer(b, p, port->buffer)->nbytes && bytes == port_bytes(port));
    if (port->count != VKB_NONE) MUST(use_buffer(b, p, port->count)->nbytes >= 4 && port->open_axis < port->rank);
    EACH(label, label, b->labels + port->first_labels, port->labels) use_text(b, label->text);
}

static void use_plan(const bundle *b, const vkb_plan *p) {
    uint32_t last = 0;
    use_text(b, p->name);
    use_text(b, p->target);
    use_text(b, p->shapes);
    use_text(b, p->precision);
    for (uint32_t i = 0; i < p->buffers; i++) use_buffer(b, p, i);
    EACH(step, step, b->steps + p->first_steps, p->steps) use_step(b, p, step);
    EACH(submit, submit, b->submits + p->first_submits, p->submits) {
        MUST(submit->end >= last && submit->end <= p->steps);
        last = submit->end;
    }
    MUST(last == p->steps);
    EACH(port, port, b->ports + p->first_ports, p->ports) use_port(b, p, port);
    EACH(state, state, b->states + p->first_states, p->states) {
        use_text(b, state->name);
        MUST(use_buffer(b, p, state->input)->role == VKB_ROLE_INPUT && use_buffer(b, p, state->input)->nbytes >= state->nbytes);
        MUST(use_buffer(b, p, state->output)->role == VKB_ROLE_OUTPUT && use_buffer(b, p, state->output)->nbytes >= state->nbytes);
        if (state->blob != VKB_NONE) use(b->data + b->blobs[state->blob].offset, state->nbytes);
    }
    EACH(example, example, b->examples + p->first_examples, p->examples) {
        const vkb_port *port = b->ports + p->first_ports + example->port;
        MUST(example->port < p->ports);
        use(b->data + b->blobs[example->blob].offset, b->blobs[example->blob].nbytes);
        MUST(b->blobs[example->blob].nbytes <= port_bytes(port));
    }
    EACH(matrix, matrix, b->matrices + p->first_matrices, p->matrices) use(matrix, sizeof *matrix);
}

static void use_bundle(const bundle *b) {
    MUST(b->plan_count);
    EACH(plan, plan, b->plans, b->plan_count) use_plan(b, plan);
    use(b->meta, b->meta_bytes);
}

/* ---- Mutations ---- */

typedef struct seed {
    uint8_t *bytes;
    size_t size;
} seed;

static uint32_t random_below(uint64_t *state, uint32_t limit) { /* xorshift64* */
    *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
    return (uint32_t)(*state * 0x2545f4914f6cdd1dull >> 33) % limit;
}

static uint64_t word_at(const uint8_t *at, size_t bytes) {
    uint64_t word = 0;
    memcpy(&word, at, bytes);
    return word;
}

/* A number to put in place of `old`; `near`: words of the same table. */
static uint64_t other_word(uint64_t *state, uint64_t old, const uint8_t *near, uint64_t near_bytes) {
    uint64_t one = 1;
    switch (random_below(state, 12)) {
    case 0: return 0;
    case 1: return 1;
    case 2: return UINT64_MAX;
    case 3: return old + 1;
    case 4: return old - 1;
    case 5: return old ^ one << random_below(state, 64);
    case 6: return old * 2;
    case 7: return (one << random_below(state, 64)) - random_below(state, 2);
    case 8: return UINT64_MAX - random_below(state, 4096);
    case 9: return random_below(state, 64);
    case 10: return (uint64_t)random_below(state, 0x7fffffff) << 32 | random_below(state, 0x7fffffff);
    default: return near_bytes < 4 ? old : word_at(near + 4 * random_below(state, (uint32_t)(near_bytes / 4)), 4);
    }
}

static void put_word(uint64_t *state, uint8_t *first, uint64_t bytes) {
    size_t size = random_below(state, 4) ? 4 : 8;
    if (bytes < 8) return;
    uint8_t *at = first + size * random_below(state, (uint32_t)(bytes / size));
    uint64_t word = other_word(state, word_at(at, size), first, bytes);
    memcpy(at, &word, size);
}

static vkb_section *section_table(uint8_t *bytes) { return (vkb_section *)(void *)(bytes + sizeof(vkb_header)); }

/* Sums made right, wherever the section table now leads. */
static void make_sums_right(uint8_t *bytes, size_t size) {
    vkb_header *header = (vkb_header *)(void *)bytes;
    uint64_t table = header->sections * (uint64_t)sizeof(vkb_section);
    if (table > size - sizeof *header) return;
    for (uint32_t i = 0; i < header->sections; i++) {
        vkb_section *s = section_table(bytes) + i;
        if (s->kind != VKB_SECTION_DATA && within(s->offset, s->nbytes, size))
            s->crc = crc32_of(bytes + s->offset, (size_t)s->nbytes);
    }
    header->table_crc = crc32_of(section_table(bytes), (size_t)table);
}

/* A bundle in memory of its own of just its size, so that reading past the end is seen. */
static int try_bytes(const uint8_t *bytes, size_t size, int sums) {
    uint8_t *copy = (uint8_t *)malloc(size ? size : 1);
    vknn_message why = {{0}};
    vknn_status status;
    bundle b;
    if (!copy) abort();
    memcpy(copy, bytes, size);
    if (sums && size > sizeof(vkb_header)) make_sums_right(copy, size);
    status = bundle_open(&b, copy, size, NULL, &why);
    if (status == VKNN_OK) use_bundle(&b);
    else MUST(why.text[0] && strlen(why.text) < sizeof why.text - 1);
    MUST(bundle_open(&b, copy, size, NULL, NULL) == status);
    MUST(bundle_open(&b, copy + 1, size, NULL, &why) == VKNN_ERROR_ARGUMENT && strstr(why.text, "malloc"));
    free(copy);
    return status == VKNN_OK;
}

static int mutate(const seed *s, uint64_t *state, uint8_t *work) {
    size_t size = s->size;
    vkb_header *header = (vkb_header *)(void *)work;
    vkb_section *table = section_table(work);
    uint32_t count = ((const vkb_header *)(const void *)s->bytes)->sections, how = random_below(state, 16);
    memcpy(work, s->bytes, s->size);
    if (how == 0) { /* cut off at a section's border, or near to it */
        const vkb_section *at = table + random_below(state, count);
        uint64_t end = at->offset + random_below(state, 2) * at->nbytes + random_below(state, 3) - 1;
        if (end < size) size = (size_t)end;
        header->file_bytes = size;
    } else if (how == 1) put_word(state, (uint8_t *)table, count * sizeof *table); /* sections that overlap */
    else if (how == 2) put_word(state, work, sizeof *header);
    else for (uint32_t times = 1 + random_below(state, 3); times--;) {
        const vkb_section *at = table + random_below(state, count);
        if (at->kind != VKB_SECTION_DATA) put_word(state, work + at->offset, at->nbytes);
    }
    return try_bytes(work, size, how != 3);
}

/* Every field of every record of tables, to each of a few numbers. */
static uint64_t every_word(const seed *s, uint8_t *work, uint64_t most, uint64_t *let_through) {
    static const uint64_t words[] = {0, 1, 0xffffffffu, 0x7fffffffu};
    const vkb_section *table = section_table(s->bytes);
    uint64_t done = 0;
    memcpy(work, s->bytes, s->size);
    EACH(section, at, table, ((const vkb_header *)(const void *)s->bytes)->sections) {
        if (at->kind == VKB_SECTION_DATA || at->kind == VKB_SECTION_META) continue;
        for (uint64_t i = 0; i + 4 <= at->nbytes; i += 4)
            for (int k = 0; k < 6 && done < most; k++, done++) {
                uint8_t *word = work + at->offset + i;
                uint32_t old = (uint32_t)word_at(word, 4), put = k < 4 ? (uint32_t)words[k] : k == 4 ? old + 1 : old - 1;
                memcpy(word, &put, 4);
                *let_through += (uint64_t)try_bytes(work, s->size, 1);
                memcpy(word, &old, 4);
            }
    }
    return done;
}

/* ---- Command line ---- */

/* A file's bytes, mapped: those of a few GiB take no time. */
static seed read_file(const char *path) {
    seed s = {NULL, 0};
    struct stat about;
    int file = open(path, O_RDONLY);
    if (file >= 0 && !fstat(file, &about) && about.st_size > 0) {
        s.size = (size_t)about.st_size;
        s.bytes = (uint8_t *)mmap(NULL, s.size, PROT_READ, MAP_PRIVATE, file, 0);
    }
    if (!s.bytes || s.bytes == (uint8_t *)MAP_FAILED) fprintf(stderr, "cannot read %s\n", path), exit(2);
    close(file);
    return s;
}

static void print_hex(const uint8_t *bytes) {
    for (int i = 0; i < 32; i++) printf("%02x", bytes[i]);
    putchar('\n');
}

static void print_opened(const seed *s, const uint8_t *sum) {
    vknn_message why = {{0}};
    bundle b;
    vknn_status status = bundle_open(&b, s->bytes, s->size, sum, &why);
    if (status == VKNN_OK) use_bundle(&b);
    printf("%d %s\n", status, why.text);
}

int main(int count, char **words) {
    seed s;
    if (count < 3) return fprintf(stderr, "fuzz_check open|pinned|mutate|sums FILE ...\n"), 2;
    if (!strcmp(words[1], "open")) {
        for (int i = 2; i < count; i++) s = read_file(words[i]), print_opened(&s, NULL), munmap(s.bytes, s.size);
        return 0;
    }
    s = read_file(words[2]);
    if (!strcmp(words[1], "pinned") && count > 3 && strlen(words[3]) == 64) {
        uint8_t sum[32] = {0};
        for (int i = 0; i < 64; i++) {
            char digit[2] = {words[3][i], 0};
            sum[i / 2] = (uint8_t)(sum[i / 2] << 4 | strtoul(digit, NULL, 16));
        }
        print_opened(&s, sum);
    } else if (!strcmp(words[1], "mutate") && count > 4) {
        uint64_t most = strtoull(words[3], NULL, 10), state = strtoull(words[4], NULL, 10) * 2 + 1, through = 0, done;
        uint8_t *work = (uint8_t *)malloc(s.size);
        if (!work || !try_bytes(s.bytes, s.size, 0)) return fprintf(stderr, "%s is refused as it is\n", words[2]), 2;
        done = every_word(&s, work, most / 2, &through);
        for (; done < most; done++) through += (uint64_t)mutate(&s, &state, work);
        printf("%llu mutations, %llu let through\n", (unsigned long long)done, (unsigned long long)through);
        free(work);
    } else if (!strcmp(words[1], "flips") && count > 4) {
        uint8_t *work = (uint8_t *)malloc(s.size);
        if (!work) return 2;
        memcpy(work, s.bytes, s.size);
        for (size_t i = 0; i < s.size && i < strtoull(words[3], NULL, 10); i++)
            for (int bit = 0; bit < 8; bit++) {
                work[i] ^= (uint8_t)(1 << bit);
                if (try_bytes(work, s.size, words[4][0] == '1')) printf("%lu\n", (unsigned long)i), bit = 8;
                work[i] = s.bytes[i];
            }
        free(work);
    } else if (!strcmp(words[1], "sums")) {
        size_t last = count > 4 ? strtoul(words[4], NULL, 10) : s.size;
        for (size_t n = count > 4 ? strtoul(words[3], NULL, 10) : 0; n <= last && n <= s.size; n++) {
            uint8_t sum[32];
            uint8_t *copy = (uint8_t *)malloc(n ? n : 1);
            if (!copy) return 2;
            memcpy(copy, s.bytes, n);
            sha256_of(copy, n, 0, sum);
            printf("%08lx ", (unsigned long)crc32_of(copy, n));
            print_hex(sum);
            free(copy);
        }
    } else return 2;
    munmap(s.bytes, s.size);
    return 0;
}

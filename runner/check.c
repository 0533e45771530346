/* Part 1: a bundle as typed views into its bytes, all checked; needs no device and allocates nothing.
 *
 * A file is untrusted. Numbers of it are compared before they are added, multiplied or used as an index,
 * and the work of checking is bounded by the file's size. What needs a device (limits, memory) is not here.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vkb.h"
#include "vknn_run.h"

#define TABLES(X) X(plans, plan, PLAN) X(buffers, buffer, BUFFER) X(steps, step, STEP) \
    X(pipelines, pipeline, PIPELINE) X(modules, module, MODULE) X(constants, constant, CONSTANT) \
    X(slots, slot, SLOT) X(bindings, binding, BINDING) X(ports, port, PORT) X(submits, submit, SUBMIT) \
    X(blobs, blob, BLOB) X(labels, label, LABEL) X(states, state, STATE) X(examples, example, EXAMPLE) \
    X(matrices, matrix, MATRIX)
#define RAW(X) X(strings, char, STRINGS) X(push, uint8_t, PUSH) X(spirv, uint8_t, SPIRV) \
    X(data, uint8_t, DATA) X(meta, uint8_t, META)
/* Tables whose records belong to a plan each, in the plans' order. */
#define OF_PLANS(X) X(buffers, buffer) X(steps, step) X(submits, submit) X(ports, port) X(states, state) \
    X(examples, example) X(matrices, matrix)

typedef struct bundle { /* typed views into the file */
    const uint8_t *bytes;
    uint64_t size;
    const vkb_header *header;
#define VIEW(many, one, SECTION) const vkb_##one *many; uint32_t one##_count;
    TABLES(VIEW)
#undef VIEW
#define VIEW(name, type, SECTION) const type *name; uint64_t name##_bytes;
    RAW(VIEW)
#undef VIEW
} bundle;

/* Sizes stay below it, so that sums of a few, and products with small numbers, cannot overflow. */
#define MOST_BYTES ((uint64_t)1 << 48)
#define MOST_INVOCATIONS ((uint64_t)1 << 40) /* of a run: minutes on any device */
#define MOST_SLOTS 32u
#define MOST_CONSTANTS 256u
#define MOST_VISITS ((uint64_t)1 << 28) /* of SPIR-V instructions: shared modules are read many times */

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void say(vknn_message *why, const char *format, ...) {
    va_list values;
    if (!why) return;
    va_start(values, format);
    vsnprintf(why->text, sizeof why->text, format, values);
    va_end(values);
}

/* ---- Sums ---- */

/* CRC-32 as zlib computes it. Tables are made anew, on the stack, where eight bytes at once pay for them. */
static uint32_t crc32_of(const void *bytes, size_t size) {
    static const uint32_t nibbles[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const uint8_t *at = (const uint8_t *)bytes;
    uint32_t crc = 0xffffffffu, t[8][256];
    if (size >= 4096) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t half = nibbles[i & 15] ^ (i >> 4);
            t[0][i] = nibbles[half & 15] ^ (half >> 4);
        }
        for (int k = 1; k < 8; k++)
            for (uint32_t i = 0; i < 256; i++) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 255];
        for (; size >= 8; at += 8, size -= 8) {
            crc ^= (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
            crc = t[7][crc & 255] ^ t[6][crc >> 8 & 255] ^ t[5][crc >> 16 & 255] ^ t[4][crc >> 24]
                ^ t[3][at[4]] ^ t[2][at[5]] ^ t[1][at[6]] ^ t[0][at[7]];
        }
    }
    for (; size; at++, size--) {
        crc ^= *at;
        crc = nibbles[crc & 15] ^ (crc >> 4);
        crc = nibbles[crc & 15] ^ (crc >> 4);
    }
    return ~crc;
}

typedef struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} sha256;

static uint32_t turned(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void sha256_block(uint32_t state[8], const uint8_t *p) {
    static const uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++, p += 4)
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + (turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7]
             + (turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t one = v[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + k[i] + w[i];
        uint32_t two = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

static void sha256_begin(sha256 *s) {
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->state, first, sizeof first);
    s->bytes = 0;
}

static void sha256_add(sha256 *s, const void *bytes, size_t size) {
    const uint8_t *at = (const uint8_t *)bytes;
    while (size) {
        size_t held = (size_t)(s->bytes % 64), n = size < 64 - held ? size : 64 - held;
        if (n == 64) sha256_block(s->state, at);
        else {
            memcpy(s->block + held, at, n);
            if (held + n == 64) sha256_block(s->state, s->block);
        }
        at += n, size -= n, s->bytes += n;
    }
}

static void sha256_end(sha256 *s, uint8_t out[32]) {
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = s->bytes * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(s, padding, (size_t)(64 - (s->bytes + 8) % 64));
    sha256_add(s, length, 8);
    for (int i = 0; i < 32; i++) out[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

/* ---- Checks ---- */

#define ANEW "Write the bundle anew with vknn export, or copy the file again."

static vknn_status damaged(vknn_message *why, const char *table, uint64_t record, const char *field,
                           uint64_t value, const char *rule) {
    say(why, "The bundle is damaged or hostile: %s, record %" PRIu64 ", field %s: %" PRIu64 " (0x%" PRIx64 "), but %s. "
        ANEW, table, record, field, value, value, rule);
    return VKNN_ERROR_FILE;
}

/* Leaves a check when a record's field breaks a rule. */
#define NEED(ok, table, number, record, field, rule) \
    do { \
        if (!(ok)) return damaged(why, table, number, #field, (uint64_t)(record)->field, rule); \
    } while (0)
#define NEED_TEXT(table, number, record, field) \
    NEED((record)->field < b->strings_bytes, table, number, record, field, "the texts end before it")
#define NEED_RANGE(table, number, record, many, one) \
    NEED(within((record)->first_##many, (record)->many, b->one##_count), table, number, record, many, \
         "from first_" #many " on there are fewer " #many)

static int within(uint64_t first, uint64_t count, uint64_t size) { return first <= size && count <= size - first; }

static int power_of_two(uint64_t x) { return x && !(x & (x - 1)); }

static const char *bundle_string(const bundle *b, uint32_t offset) { return b->strings + offset; }

/* Bytes of a port's elements, at most MOST_BYTES; above that if they are more. */
static uint64_t port_bytes(const vkb_port *port) {
    static const uint8_t sizes[12] = {4, 2, 1, 1, 2, 2, 4, 4, 8, 8, 1, 8};
    uint64_t bytes = sizes[port->type];
    for (uint32_t i = 0; i < VKB_MOST_AXES; i++) {
        if (port->dims[i] > MOST_BYTES || (port->dims[i] && bytes > MOST_BYTES / port->dims[i])) return UINT64_MAX;
        bytes *= port->dims[i];
    }
    return bytes;
}

static vknn_status check_header(const bundle *b, const uint8_t sha[32], vknn_message *why) {
    static const uint8_t magic[8] = VKB_MAGIC, zeros[32] = {0};
    const vkb_header *h = b->header;
    uint8_t found[32];
    sha256 s;
    if (b->size < sizeof *h || memcmp(h->magic, magic, 8)) {
        say(why, "This is no bundle: its first bytes are not those of a .vkb file. Give a file of vknn export.");
        return VKNN_ERROR_FILE;
    }
    if (h->version != VKB_VERSION) {
        say(why, "The bundle is of format version %" PRIu32 ", this runner reads version %u. Build a newer "
            "vknn_run.c, or write the bundle with the vknn that this one is of.", h->version, VKB_VERSION);
        return VKNN_ERROR_FILE;
    }
    NEED(h->header_bytes == sizeof *h, "header", 0, h, header_bytes, "a header has 128 bytes");
    NEED(h->file_bytes == b->size, "header", 0, h, file_bytes, "the file is shorter or longer: it is cut off?");
    NEED(!memcmp(h->reserved, zeros, 32), "header", 0, h, reserved[0], "reserved bytes are 0");
    if (!sha) return VKNN_OK;
    sha256_begin(&s);
    sha256_add(&s, b->bytes, 32);
    sha256_add(&s, zeros, 32);
    sha256_add(&s, b->bytes + 64, (size_t)b->size - 64);
    sha256_end(&s, found);
    if (memcmp(found, sha, 32) || memcmp(h->sha256, sha, 32)) {
        say(why, "The bundle's SHA-256 is not the one that was given: it is another file, or was changed. Give "
            "the file that was meant, or what `vknn bundle` prints of the new one.");
        return VKNN_ERROR_HASH;
    }
    return VKNN_OK;
}

/* Places of the sections; on return all views are set, to nothing where a section is missing. */
static vknn_status check_sections(bundle *b, vknn_message *why) {
    const vkb_section *table = (const vkb_section *)(const void *)(b->bytes + sizeof *b->header);
    uint64_t start = sizeof *b->header;
    uint32_t n = b->header->sections, seen = 0;
    NEED(n < VKB_SECTIONS, "header", 0, b->header, sections, "there are not so many kinds");
    NEED(n * sizeof *table <= b->size - start, "header", 0, b->header, sections, "the file ends within their table");
    start += n * sizeof *table;
    NEED(crc32_of(table, n * sizeof *table) == b->header->table_crc, "header", 0, b->header, table_crc,
         "the section table has another sum");
    for (uint32_t i = 0; i < n; i++) {
        const vkb_section *s = table + i;
        const uint8_t *at;
        uint32_t size = 1;
        NEED(s->kind && s->kind < VKB_SECTIONS && !(seen >> s->kind & 1), "sections", i, s, kind,
             "such a kind is not known, or was there before");
        seen |= (uint32_t)1 << s->kind;
        NEED(s->offset >= start && s->offset % (s->kind == VKB_SECTION_DATA ? VKB_DATA_ALIGNMENT : VKB_ALIGNMENT) == 0,
             "sections", i, s, offset, "no section may begin there");
        NEED(within(s->offset, s->nbytes, b->size), "sections", i, s, nbytes, "the file ends before its end");
        for (uint32_t j = 0; j < i; j++)
            NEED(table[j].offset >= s->offset + s->nbytes || s->offset >= table[j].offset + table[j].nbytes, "sections",
                 i, s, offset, "it overlaps another section");
        at = b->bytes + s->offset;
        switch (s->kind) {
#define PLACE(many, one, SECTION) \
        case VKB_SECTION_##SECTION: \
            size = sizeof(vkb_##one), b->many = (const vkb_##one *)(const void *)at, b->one##_count = s->count; \
            break;
            TABLES(PLACE)
#undef PLACE
#define PLACE(name, type, SECTION) \
        case VKB_SECTION_##SECTION: b->name = (const type *)at, b->name##_bytes = s->nbytes; break;
            RAW(PLACE)
#undef PLACE
        default: break;
        }
        NEED(s->record_bytes == size, "sections", i, s, record_bytes, "records of this kind have another size");
        NEED(size == 1 ? s->count == (s->nbytes <= UINT32_MAX ? s->nbytes : 0) : s->nbytes == (uint64_t)s->count * size,
             "sections", i, s, count, "it does not go with nbytes");
        NEED(s->crc == (s->kind == VKB_SECTION_DATA ? 0 : crc32_of(at, (size_t)s->nbytes)), "sections", i, s, crc,
             "the section has another sum");
    }
    return VKNN_OK;
}

/* Texts are UTF-8 (C++, Java and Swift make strings of them), and each one ends within the section. */
static vknn_status check_texts(const bundle *b, vknn_message *why) {
    const uint8_t *at = (const uint8_t *)b->strings, *end = at + b->strings_bytes;
    if (!b->strings_bytes || at[0] || end[-1])
        return damaged(why, "strings", 0, "bytes", b->strings_bytes, "the texts begin and end with a zero byte");
    while (at < end) {
        uint32_t more = *at < 0x80 ? 0 : *at < 0xc2 ? 9 : *at < 0xe0 ? 1 : *at < 0xf0 ? 2 : *at < 0xf5 ? 3 : 9;
        int bad = more == 9 || (*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f)
            || (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f); /* the last byte is 0: at[1] is there */
        for (uint32_t i = 1; !bad && i <= more; i++) bad = (at[i] & 0xc0) != 0x80; /* a 0 ends it in time */
        if (bad) return damaged(why, "strings", (uint64_t)(at - (const uint8_t *)b->strings), "byte", *at, "it is no UTF-8");
        at += 1 + more;
    }
    return VKNN_OK;
}

static vknn_status check_small_tables(const bundle *b, vknn_message *why) {
    for (uint32_t i = 0; i < b->blob_count; i++) {
        const vkb_blob *r = b->blobs + i;
        NEED(r->offset % VKB_BLOB_ALIGNMENT == 0, "blobs", i, r, offset, "blobs begin at multiples of 256");
        NEED(within(r->offset, r->nbytes, b->data_bytes), "blobs", i, r, nbytes, "the data end before it");
        NEED(!r->reserved, "blobs", i, r, reserved, "it is reserved and has to be 0");
    }
    for (uint32_t i = 0; i < b->label_count; i++) {
        NEED_TEXT("labels", i, b->labels + i, text);
        NEED(!b->labels[i].reserved, "labels", i, b->labels + i, reserved, "it is reserved and has to be 0");
    }
    for (uint32_t i = 0; i < b->slot_count; i++) {
        const vkb_slot *r = b->slots + i;
        NEED(r->view == 4 || r->view == 5 || r->view == 7, "slots", i, r, view, "it has to be 4, 5 or 7");
        NEED(r->access >= 1 && r->access <= 3, "slots", i, r, access, "it has to be 1, 2 or 3");
        NEED(r->view != 4 || r->access == 1, "slots", i, r, access, "uniform texels can only be read");
    }
    for (uint32_t i = 0; i < b->matrix_count; i++) {
        const vkb_matrix *r = b->matrices + i;
        NEED(r->m && r->m <= 1024, "matrices", i, r, m, "it has to be from 1 to 1024");
        NEED(r->n && r->n <= 1024, "matrices", i, r, n, "it has to be from 1 to 1024");
        NEED(r->k && r->k <= 1024, "matrices", i, r, k, "it has to be from 1 to 1024");
        NEED(!r->reserved, "matrices", i, r, reserved, "it is reserved and has to be 0");
    }
    return VKNN_OK;
}

/* Size of a pipeline's workgroups: its specialization constants 0, 1 and 2. */
static void group_size(const bundle *b, const vkb_pipeline *p, uint32_t size[3]) {
    size[0] = size[1] = size[2] = 1;
    for (uint32_t i = 0; i < p->constants; i++) {
        const vkb_constant *c = b->constants + p->first_constants + i;
        if (c->id < 3) size[c->id] = c->word;
    }
}

static vknn_status check_pipelines(const bundle *b, vknn_message *why) {
    for (uint32_t i = 0; i < b->pipeline_count; i++) {
        const vkb_pipeline *r = b->pipelines + i;
        const vkb_constant *c = b->constants + r->first_constants;
        NEED_TEXT("pipelines", i, r, kernel);
        NEED(r->module < b->module_count, "pipelines", i, r, module, "there are fewer modules");
        NEED_RANGE("pipelines", i, r, constants, constant);
        NEED_RANGE("pipelines", i, r, slots, slot);
        NEED(r->constants <= MOST_CONSTANTS, "pipelines", i, r, constants, "256 are the most");
        NEED(r->slots <= MOST_SLOTS, "pipelines", i, r, slots, "32 are the most");
        NEED(r->push_bytes % 4 == 0, "pipelines", i, r, push_bytes, "it has to be a multiple of 4");
        NEED(r->flags <= 1, "pipelines", i, r, flags, "it has to be 0 or 1");
        for (uint32_t j = 1; j < r->constants; j++)
            for (uint32_t k = 0; k < j; k++)
                NEED(c[j].id != c[k].id, "constants", r->first_constants + j, c + j, id, "the pipeline has it twice");
    }
    return VKNN_OK;
}

static vknn_status check_buffers(const bundle *b, const vkb_plan *p, vknn_message *why) {
    uint64_t weights = 0;
    for (uint32_t i = p->first_buffers; i < p->first_buffers + p->buffers; i++) {
        const vkb_buffer *r = b->buffers + i;
        NEED_TEXT("buffers", i, r, name);
        NEED(r->role <= VKB_ROLE_WEIGHT, "buffers", i, r, role, "it has to be from 0 to 3");
        NEED(r->nbytes && r->nbytes <= MOST_BYTES, "buffers", i, r, nbytes, "it has to be from 1 to 2^48");
        NEED(r->offset % 4 == 0, "buffers", i, r, offset, "it has to be a multiple of 4");
        NEED(!r->reserved, "buffers", i, r, reserved, "it is reserved and has to be 0");
        if (r->role == VKB_ROLE_WEIGHT) {
            NEED(!r->offset, "buffers", i, r, offset, "a weight's has to be 0");
            NEED(r->blob < b->blob_count, "buffers", i, r, blob, "there are fewer blobs");
            NEED(r->nbytes >= b->blobs[r->blob].nbytes, "buffers", i, r, nbytes, "its blob is larger");
            weights += r->nbytes;
            NEED(weights <= MOST_BYTES, "buffers", i, r, nbytes, "with the other weights it is more than 2^48");
        } else {
            NEED(r->blob == VKB_NONE, "buffers", i, r, blob, "only weights have one");
            NEED(within(r->offset, r->nbytes, p->arenas[r->role]), "buffers", i, r, nbytes, "its arena ends before it");
        }
    }
    return VKNN_OK;
}

static uint32_t texel_bytes(uint32_t format) {
    switch (format) { /* VkFormat */
    case 74: case 76: return 2; /* R16_UINT, R16_SFLOAT */
    case 99: case 100: return 4; /* R32_SINT, R32_SFLOAT */
    case 95: case 97: return 8; /* R16G16B16A16_UINT, R16G16B16A16_SFLOAT */
    case 108: case 109: return 16; /* R32G32B32A32_SINT, R32G32B32A32_SFLOAT */
    default: return 0;
    }
}

static vknn_status check_binding(const bundle *b, const vkb_plan *p, uint32_t number, const vkb_slot *slot,
                                 vknn_message *why) {
    const vkb_binding *r = b->bindings + number;
    const vkb_buffer *buffer;
    uint32_t texel = texel_bytes(r->format);
    NEED(r->buffer < p->buffers, "bindings", number, r, buffer, "its plan has fewer buffers");
    buffer = b->buffers + p->first_buffers + r->buffer;
    NEED(!(slot->access & 2) || buffer->role != VKB_ROLE_WEIGHT, "bindings", number, r, buffer,
         "it is a weight, and its slot writes");
    if (slot->view == 7) {
        NEED(!r->format, "bindings", number, r, format, "a storage buffer's has to be 0");
        NEED(buffer->nbytes <= p->storage_range, "bindings", number, r, buffer, "it is larger than its plan's storage_range");
        NEED(buffer->offset % p->storage_alignment == 0, "bindings", number, r, buffer,
             "its offset is no multiple of its plan's storage_alignment");
    } else {
        NEED(texel, "bindings", number, r, format, "a texel view has another");
        NEED(buffer->nbytes % texel == 0, "bindings", number, r, buffer, "it is not of whole texels");
        NEED(buffer->nbytes / texel <= p->texel_elements, "bindings", number, r, buffer,
             "it has more texels than its plan's texel_elements");
        NEED(buffer->offset % p->texel_alignment == 0, "bindings", number, r, buffer,
             "its offset is no multiple of its plan's texel_alignment");
    }
    return VKNN_OK;
}

static vknn_status check_dispatch(const bundle *b, const vkb_plan *p, uint32_t number, uint64_t *invocations,
                                  vknn_message *why) {
    const vkb_step *r = b->steps + number;
    const vkb_pipeline *pipeline;
    uint64_t all = 1, views[8] = {0};
    uint32_t size[3];
    NEED(r->pipeline < b->pipeline_count, "steps", number, r, pipeline, "there are fewer pipelines");
    pipeline = b->pipelines + r->pipeline;
    NEED_RANGE("steps", number, r, bindings, binding);
    NEED(r->bindings == pipeline->slots, "steps", number, r, bindings, "its pipeline has another number of slots");
    NEED(r->push % 4 == 0 && within(r->push, pipeline->push_bytes, b->push_bytes), "steps", number, r, push,
         "push constants begin at multiples of 4 and end within their section");
    NEED(pipeline->push_bytes <= p->push_bytes, "steps", number, r, pipeline, "its plan's push_bytes are fewer");
    NEED(b->modules[pipeline->module].shared_memory <= p->shared_memory, "steps", number, r, pipeline,
         "its plan's shared_memory is less");
    NEED(!pipeline->flags || p->features & VKB_FEATURE_FULL_SUBGROUPS, "steps", number, r, pipeline,
         "its plan's features are without full subgroups");
    group_size(b, pipeline, size);
    for (int i = 0; i < 3; i++) {
        NEED(size[i] && size[i] <= p->group_size[i], "steps", number, r, pipeline, "its plan's group_size is less");
        all *= size[i];
        NEED(all <= p->group_invocations, "steps", number, r, pipeline, "its plan's group_invocations are fewer");
    }
    for (int i = 0; i < 3; i++) {
        NEED(r->groups[i] && r->groups[i] <= p->group_count[i], "steps", number, r, groups[i],
             "it has to be from 1 to its plan's group_count");
        NEED(all <= MOST_INVOCATIONS / r->groups[i], "steps", number, r, groups[i], "a run takes too long");
        all *= r->groups[i];
    }
    *invocations += all;
    NEED(*invocations <= MOST_INVOCATIONS, "steps", number, r, groups[0], "with the steps before a run takes too long");
    for (uint32_t i = 0; i < r->bindings; i++) {
        const vkb_slot *slot = b->slots + pipeline->first_slots + i;
        vknn_status status = check_binding(b, p, r->first_bindings + i, slot, why);
        if (status) return status;
        views[slot->view]++;
    }
    NEED(views[7] <= p->storage_buffers, "steps", number, r, bindings, "its plan's storage_buffers are fewer");
    NEED(views[4] <= p->uniform_texel_buffers, "steps", number, r, bindings, "its plan's uniform_texel_buffers are fewer");
    NEED(views[5] <= p->storage_texel_buffers, "steps", number, r, bindings, "its plan's storage_texel_buffers are fewer");
    return VKNN_OK;
}

static vknn_status check_move(const bundle *b, const vkb_plan *p, uint32_t number, vknn_message *why) {
    const vkb_step *r = b->steps + number;
    const vkb_buffer *buffers = b->buffers + p->first_buffers, *source, *target;
    NEED(r->target < p->buffers, "steps", number, r, target, "its plan has fewer buffers");
    target = buffers + r->target;
    NEED(target->role != VKB_ROLE_WEIGHT, "steps", number, r, target, "it is a weight, which nothing may write");
    if (r->kind == VKB_STEP_FILL) {
        NEED(target->nbytes % 4 == 0, "steps", number, r, target, "a buffer that is filled has a multiple of 4 bytes");
        return VKNN_OK;
    }
    NEED(r->source < p->buffers, "steps", number, r, source, "its plan has fewer buffers");
    source = buffers + r->source;
    NEED(r->nbytes, "steps", number, r, nbytes, "a copy has some");
    NEED(within(r->source_offset, r->nbytes, source->nbytes), "steps", number, r, source_offset, "the copy leaves its source");
    NEED(within(r->target_offset, r->nbytes, target->nbytes), "steps", number, r, target_offset, "the copy leaves its target");
    if (source->role == target->role) { /* of one arena, where buffers may share bytes */
        uint64_t from = source->offset + r->source_offset, to = target->offset + r->target_offset;
        NEED(from + r->nbytes <= to || to + r->nbytes <= from, "steps", number, r, nbytes, "what the copy reads and writes overlaps");
    }
    return VKNN_OK;
}

static vknn_status check_steps(const bundle *b, const vkb_plan *p, vknn_message *why) {
    uint64_t invocations = 0, flops = 0, traffic = 0;
    uint32_t last = 0;
    for (uint32_t i = p->first_steps; i < p->first_steps + p->steps; i++) {
        const vkb_step *r = b->steps + i;
        vknn_status status = VKNN_OK;
        NEED(r->kind <= VKB_STEP_BARRIER, "steps", i, r, kind, "it has to be from 0 to 3");
        NEED_TEXT("steps", i, r, label);
        NEED_TEXT("steps", i, r, op);
        NEED(!r->reserved, "steps", i, r, reserved, "it is reserved and has to be 0");
        NEED(r->flops <= UINT64_MAX - flops, "steps", i, r, flops, "the sum over all steps is too large");
        NEED(r->traffic <= UINT64_MAX - traffic, "steps", i, r, traffic, "the sum over all steps is too large");
        flops += r->flops, traffic += r->traffic;
        if (r->kind == VKB_STEP_DISPATCH) status = check_dispatch(b, p, i, &invocations, why);
        else if (r->kind != VKB_STEP_BARRIER) status = check_move(b, p, i, why);
        if (status) return status;
    }
    for (uint32_t i = p->first_submits; i < p->first_submits + p->submits; i++) {
        const vkb_submit *r = b->submits + i;
        NEED((r->end > last || !p->steps) && r->end <= p->steps, "submits", i, r, end, "submits ascend, up to the plan's steps");
        NEED(!r->reserved, "submits", i, r, reserved, "it is reserved and has to be 0");
        last = r->end;
    }
    if (last != p->steps)
        return damaged(why, "submits", p->first_submits, "end", last, "the last one has to be at the end of the plan's steps");
    return VKNN_OK;
}

static vknn_status check_port(const bundle *b, const vkb_plan *p, uint32_t number, vknn_message *why) {
    const vkb_port *r = b->ports + number;
    const vkb_buffer *buffers = b->buffers + p->first_buffers;
    const char *layout;
    NEED_TEXT("ports", number, r, name);
    NEED_TEXT("ports", number, r, layout);
    NEED_TEXT("ports", number, r, picture);
    NEED(r->direction <= VKB_DIRECTION_OUTPUT, "ports", number, r, direction, "it has to be 0 or 1");
    NEED(r->type <= VKB_TYPE_FLOAT64, "ports", number, r, type, "such a type is not known");
    NEED(r->rank <= VKB_MOST_AXES, "ports", number, r, rank, "8 axes are the most");
    for (uint32_t i = r->rank; i < VKB_MOST_AXES; i++)
        NEED(r->dims[i] == 1, "ports", number, r, dims[i], "behind the last axis it has to be 1");
    NEED(r->buffer < p->buffers, "ports", number, r, buffer, "its plan has fewer buffers");
    NEED(buffers[r->buffer].role == r->direction, "ports", number, r, buffer, "it is in another arena");
    NEED(port_bytes(r) <= buffers[r->buffer].nbytes, "ports", number, r, buffer, "the port's elements are more than it holds");
    if (r->count != VKB_NONE) {
        NEED(r->direction == VKB_DIRECTION_OUTPUT, "ports", number, r, count, "only outputs have one");
        NEED(r->count < p->buffers, "ports", number, r, count, "its plan has fewer buffers");
        NEED(buffers[r->count].role == VKB_ROLE_OUTPUT && buffers[r->count].nbytes >= 4, "ports", number, r, count,
             "it is no output with an int32");
        NEED(r->open_axis < r->rank, "ports", number, r, open_axis, "the port has fewer axes");
        for (uint32_t i = 0; i < r->open_axis; i++)
            NEED(r->dims[i] == 1, "ports", number, r, dims[i], "in front of an open axis it has to be 1");
    }
    NEED_RANGE("ports", number, r, labels, label);
    layout = bundle_string(b, r->layout);
    NEED(!*layout || strlen(layout) == r->rank, "ports", number, r, layout, "it has not a letter an axis");
    NEED(r->quantized <= 1, "ports", number, r, quantized, "it has to be 0 or 1");
    if (!(r->scale >= 0 && r->scale < 1e30f))
        return damaged(why, "ports", number, "scale", 0, "it is negative, infinite or no number");
    return VKNN_OK;
}

static vknn_status check_rest(const bundle *b, const vkb_plan *p, vknn_message *why) {
    const vkb_buffer *buffers = b->buffers + p->first_buffers;
    for (uint32_t i = p->first_states; i < p->first_states + p->states; i++) {
        const vkb_state *r = b->states + i;
        NEED_TEXT("states", i, r, name);
        NEED(r->input < p->buffers && buffers[r->input].role == VKB_ROLE_INPUT, "states", i, r, input,
             "the plan has no such input buffer");
        NEED(r->output < p->buffers && buffers[r->output].role == VKB_ROLE_OUTPUT, "states", i, r, output,
             "the plan has no such output buffer");
        NEED(r->nbytes && r->nbytes <= buffers[r->input].nbytes && r->nbytes <= buffers[r->output].nbytes, "states",
             i, r, nbytes, "a buffer of it has another size");
        NEED(r->blob == VKB_NONE || (r->blob < b->blob_count && b->blobs[r->blob].nbytes == r->nbytes), "states", i,
             r, blob, "there is no such blob of its size");
    }
    for (uint32_t i = p->first_examples; i < p->first_examples + p->examples; i++) {
        const vkb_example *r = b->examples + i;
        const vkb_port *port;
        uint64_t found, most;
        NEED(r->port < p->ports, "examples", i, r, port, "its plan has fewer ports");
        NEED(r->blob < b->blob_count, "examples", i, r, blob, "there are fewer blobs");
        port = b->ports + p->first_ports + r->port;
        found = b->blobs[r->blob].nbytes, most = port_bytes(port);
        NEED(port->count == VKB_NONE ? found == most : found <= most, "examples", i, r, blob, "the port has another size");
        if (!(r->absolute >= 0 && r->absolute < 1e30f && r->relative >= 0 && r->relative < 1e30f))
            return damaged(why, "examples", i, "absolute, relative", 0, "one is negative, infinite or no number");
    }
    return VKNN_OK;
}

static vknn_status check_plan(const bundle *b, uint32_t i, vknn_message *why) {
    const vkb_plan *p = b->plans + i;
    vknn_status status;
    NEED_TEXT("plans", i, p, name);
    NEED_TEXT("plans", i, p, target);
    NEED_TEXT("plans", i, p, shapes);
    NEED_TEXT("plans", i, p, precision);
    for (int k = 0; k < 3; k++) NEED(p->arenas[k] <= MOST_BYTES, "plans", i, p, arenas[k], "2^48 is the most");
    NEED(p->features < 2 * (uint64_t)VKB_FEATURE_MEMORY_MODEL_DEVICE_SCOPE, "plans", i, p, features,
         "this runner does not know all of them");
    NEED(p->vulkan >> 22 == 1, "plans", i, p, vulkan, "it is no version of Vulkan 1");
    NEED(power_of_two(p->storage_alignment) && p->storage_alignment <= 256, "plans", i, p, storage_alignment,
         "it has to be a power of two, up to 256");
    NEED(power_of_two(p->texel_alignment) && p->texel_alignment <= 256, "plans", i, p, texel_alignment,
         "it has to be a power of two, up to 256");
    NEED(!p->subgroup_size || (power_of_two(p->subgroup_size) && p->subgroup_size <= 128), "plans", i, p,
         subgroup_size, "it has to be 0 or a power of two, up to 128");
    NEED(!p->matrices || p->features & VKB_FEATURE_COOPERATIVE_MATRIX, "plans", i, p, features,
         "it has matrices without the feature");
    status = check_buffers(b, p, why);
    if (!status) status = check_steps(b, p, why);
    for (uint32_t k = p->first_ports; !status && k < p->first_ports + p->ports; k++) status = check_port(b, p, k, why);
    if (!status) status = check_rest(b, p, why);
    return status;
}

static vknn_status check_plans(const bundle *b, vknn_message *why) {
#define FIRST(many, one) uint32_t many = 0;
    OF_PLANS(FIRST)
#undef FIRST
    if (!b->plan_count) return damaged(why, "plans", 0, "count", 0, "a bundle has one at least");
    for (uint32_t i = 0; i < b->plan_count; i++) {
        const vkb_plan *p = b->plans + i;
        vknn_status status;
#define NEXT(many, one) \
        NEED(p->first_##many == many, "plans", i, p, first_##many, "they do not follow those of the plan before"); \
        NEED(p->many <= b->one##_count - many, "plans", i, p, many, "there are fewer " #many); \
        many += p->many;
        OF_PLANS(NEXT)
#undef NEXT
        status = check_plan(b, i, why);
        if (status) return status;
    }
#define LAST(many, one) \
    if (many != b->one##_count) return damaged(why, #many, many, "index", many, "it is of no plan");
    OF_PLANS(LAST)
#undef LAST
    return VKNN_OK;
}

/* Views of a bundle, all checked; the bytes, at a multiple of 8, have to stay. Of the data only the blobs'
 * places are checked: whoever reads a blob compares its CRC. `sha256`: 32 bytes, or null. */
static vknn_status bundle_open(bundle *b, const void *bytes, size_t size, const uint8_t sha256[32], vknn_message *why) {
    vknn_status status;
    memset(b, 0, sizeof *b);
    if (!bytes || (uintptr_t)bytes % 8) {
        say(why, "The bundle's bytes have to lie at a multiple of 8. Copy them to memory from malloc.");
        return VKNN_ERROR_ARGUMENT;
    }
    b->bytes = (const uint8_t *)bytes;
    b->size = size;
    b->header = (const vkb_header *)bytes;
    status = check_header(b, sha256, why);
    if (!status) status = check_sections(b, why);
    if (!status) status = check_texts(b, why);
    if (!status) status = check_small_tables(b, why);
    if (!status) status = check_pipelines(b, why);
    if (!status) status = check_plans(b, why);
    return status;
}

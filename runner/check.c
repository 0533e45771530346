/* Part 1: a bundle as typed views into its bytes, all checked. Needs no device and allocates nothing.
 *
 * A file is untrusted: its numbers are compared before they are added, multiplied or used as an index, and
 * checking takes time in proportion to its size. Limits and memory of the device are compared in part 2.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vkb.h"
#include "vknn_run.h"

typedef struct bundle { /* typed views into the file; a section that is missing is empty, not null */
    vknn_message *why; /* where checks say what is wrong */
    uint64_t visits, work; /* of MOST_VISITS, and of MOST_WORK by the plan that is being checked */
    const uint8_t *bytes;
    uint64_t size;
    const vkb_header *header;
#define VIEW(many, one, ONE) const vkb_##one *many; uint32_t one##_count;
    VKB_TABLES(VIEW)
#undef VIEW
    const char *strings;
    const uint8_t *push, *spirv, *data, *meta;
    uint64_t strings_bytes, push_bytes, spirv_bytes, data_bytes, meta_bytes;
} bundle;

/* Sizes stay below it, so that sums of a few of them, and products with small numbers, cannot overflow. */
#define MOST_BYTES ((uint64_t)1 << 48)
/* Invocations of a run, and what is moved as so many: seconds on a GPU, minutes elsewhere. Closing a net waits. */
#define MOST_WORK ((uint64_t)1 << 36)
#define MOST_VISITS ((uint64_t)1 << 31) /* words of SPIR-V that are looked at: pipelines share modules */
#define MOST_PORTS 1024 /* of a plan; and bytes of a name: ports are looked for one by one */
#define MOST_SLOTS 32 /* of a pipeline, as these are */
#define MOST_CONSTANTS 128
#define MOST_FUNCTIONS 1024 /* of a module */
#define MOST_IDS (1u << 18) /* of a module: drivers make a table of them */
enum { UNIFORM_TEXEL = 4, STORAGE_TEXEL = 5, STORAGE_BUFFER = 7 }; /* VkDescriptorType */

/* Where a text is no UTF-8 any more, of which C++, Java and Swift make strings; its end, which a 0 is in front of
 * or at, where all of it is. */
static const char *utf8_end(const char *text, const char *end) {
    const uint8_t *at = (const uint8_t *)text;
    for (int ok; (const char *)at < end; text = (const char *)at) {
        uint32_t first = *at++, more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        ok = first < 0x80 || (first >= 0xc2 && first <= 0xf4
            && !(first == 0xe0 && *at < 0xa0) && !(first == 0xed && *at > 0x9f)
            && !(first == 0xf0 && *at < 0x90) && !(first == 0xf4 && *at > 0x8f));
        while (ok && more--) ok = (*at++ & 0xc0) == 0x80;
        if (!ok) break;
    }
    return text;
}

/* Adds to a text; "..." is its end where there is no room, '?' in it what is no UTF-8: names are cut. */
static void append_values(char *text, size_t room, const char *format, va_list values) {
    size_t at = strlen(text);
    if ((size_t)vsnprintf(text + at, room - at, format, values) >= room - at) memcpy(text + room - 4, "...", 4);
    for (char *bad = text; *(bad = (char *)(uintptr_t)utf8_end(bad, bad + strlen(bad)));) *bad = '?';
}

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void say(vknn_message *why, const char *format, ...) {
    va_list values;
    if (!why) return;
    why->text[0] = 0;
    va_start(values, format);
    append_values(why->text, sizeof why->text, format, values);
    va_end(values);
}

/* CRC-32 as zlib computes it. Large tables are made anew, on the stack, where they pay for it. */
static uint32_t crc32_of(const void *bytes, size_t size) {
    static const uint32_t nibbles[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const uint8_t *p = (const uint8_t *)bytes;
    uint32_t crc = 0xffffffffu, t[8][256];
    if (size >= 4096) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t half = nibbles[i & 15] ^ i >> 4;
            t[0][i] = nibbles[half & 15] ^ half >> 4;
        }
        for (int k = 1; k < 8; k++)
            for (uint32_t i = 0; i < 256; i++) t[k][i] = t[k - 1][i] >> 8 ^ t[0][t[k - 1][i] & 255];
        for (; size >= 8; p += 8, size -= 8) {
            crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
            crc = t[7][crc & 255] ^ t[6][crc >> 8 & 255] ^ t[5][crc >> 16 & 255] ^ t[4][crc >> 24]
                ^ t[3][p[4]] ^ t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]];
        }
    }
    for (; size; p++, size--)
        for (int k = 0; k < 2; k++) crc = nibbles[(crc ^ *p >> 4 * k) & 15] ^ crc >> 4;
    return ~crc;
}

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
    for (int i = 0; i < 64; i++)
        if (i < 16) w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3], p += 4;
        else w[i] = w[i - 16] + (turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7]
                  + (turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4], one, two;
        one = v[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + (v[6] ^ (e & (v[5] ^ v[6])));
        one += k[i] + w[i];
        two = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one, v[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

/* SHA-256, with `hole` bytes from 32 on (32 of a bundle, where its own sum is, else 0) taken for zeros. */
static void sha256_of(const uint8_t *bytes, uint64_t size, size_t hole, uint8_t out[32]) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint64_t blocks = size / 64 + (size % 64 < 56 ? 1 : 2); /* with a bit 1 and the size behind the bytes */
    for (uint64_t i = 0; i < blocks; i++) {
        uint8_t block[64] = {0};
        uint64_t left = i * 64 < size ? size - i * 64 : 0;
        if (left) memcpy(block, bytes + i * 64, (size_t)(left < 64 ? left : 64));
        if (left < 64 && i == size / 64) block[left] = 0x80;
        if (i == 0) memset(block + 32, 0, hole);
        for (int k = 0; i == blocks - 1 && k < 8; k++) block[56 + k] = (uint8_t)(size * 8 >> (56 - 8 * k));
        sha256_block(state, block);
    }
    for (int i = 0; i < 32; i++) out[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

/* ---- What checks are written with ---- */

static const struct kind { uint16_t record_bytes, view, count; char name[10]; } kinds[VKB_SECTIONS] = {
#define KIND(many, one, ONE) \
    [VKB_SECTION_##ONE] = {sizeof(vkb_##one), offsetof(bundle, many), offsetof(bundle, one##_count), #many},
    VKB_TABLES(KIND)
#undef KIND
#define KIND(name, NAME) \
    [VKB_SECTION_##NAME] = {1, offsetof(bundle, name), offsetof(bundle, name##_bytes), ""},
    VKB_BYTES(KIND)
#undef KIND
};

/* A sentence on a field of a record, whose table and number follow from where it lies. */
static vknn_status damaged(const bundle *b, const void *record, const char *field,
                           uint64_t value, const char *rule) {
    uint64_t at = (uint64_t)((const uint8_t *)record - b->bytes), size = sizeof *b->header, first = 0;
    const char *name = "header";
    if (at >= size) name = "section table", first = size, size = sizeof(vkb_section);
    for (const struct kind *kind = kinds; kind < kinds + VKB_SECTIONS; kind++) {
        const uint8_t *rows;
        uint64_t begin;
        uint32_t count;
        if (kind->record_bytes < 2) continue;
        memcpy(&rows, (const char *)b + kind->view, sizeof rows);
        memcpy(&count, (const char *)b + kind->count, sizeof count);
        begin = (uint64_t)(rows - b->bytes);
        if (at >= begin && (at - begin) / kind->record_bytes < count)
            name = kind->name, size = kind->record_bytes, first = begin;
    }
    say(b->why, "The bundle is damaged: %s, record %" PRIu64 ", field %s: %" PRIu64 " (0x%" PRIx64 ") breaks "
        "the rule %s. Write it anew with vknn export, or copy it again.", name, (at - first) / size, field,
        value, value, rule);
    return VKNN_ERROR_FILE;
}

/* These leave a check where a rule is broken; `b` is that around them. */
#if defined(VKNN_SMALL) /* rules as texts take 5 KB */
#define RULE(text) "of this field"
#else
#define RULE(text) text
#endif
#define NEED_THAT(r, field, ok, rule) \
    do { if (!(ok)) return damaged(b, r, #field, (uint64_t)(r)->field, RULE(rule)); } while (0)
#define NEED(r, field, ok) NEED_THAT(r, field, ok, #ok)
#define FAIL(status, ...) return say(why, __VA_ARGS__), (status)
#define TRY(call) do { vknn_status tried = (call); if (tried) return tried; } while (0)
#define EACH(one, r, from, count) for (const vkb_##one *r = (from), *r##_end = r + (count); r < r##_end; r++)
#define EACH_NEEDS(one, many, field, ok) EACH(one, r, b->many, b->one##_count) NEED(r, field, ok);

static int within(uint64_t first, uint64_t count, uint64_t size) {
    return first <= size && count <= size - first;
}

static int is_power_of_two(uint64_t x) { return x && !(x & (x - 1)); }

static const char *bundle_string(const bundle *b, uint32_t offset) { return b->strings + offset; }

/* Letters of a text, as far as they are counted. */
static uint32_t letters(const bundle *b, uint32_t offset, uint32_t most) {
    uint32_t n = 0;
    while (n < most && bundle_string(b, offset)[n]) n++;
    return n;
}

static const uint8_t element_bytes[] = VKB_TYPE_BYTES;

/* Bytes of a port's elements; UINT64_MAX if they are more than MOST_BYTES. */
static uint64_t port_bytes(const vkb_port *port) {
    uint64_t bytes = element_bytes[port->type];
    for (const uint64_t *dim = port->dims; dim < port->dims + VKB_MOST_AXES; bytes *= *dim++)
        if (*dim > MOST_BYTES || (*dim && bytes > MOST_BYTES / *dim)) return UINT64_MAX;
    return bytes;
}

/* ---- File, sections, texts ---- */

static vknn_status check_header(const bundle *b, const uint8_t pinned[32]) {
    static const uint8_t magic[8] = VKB_MAGIC, zeros[32] = {0};
    const vkb_header *h = b->header;
    vknn_message *const why = b->why;
    uint8_t found[32];
    if (b->size < sizeof *h || memcmp(h->magic, magic, sizeof magic))
        FAIL(VKNN_ERROR_FILE, "This is no bundle: it does not begin as .vkb files do. Take one of vknn "
             "export.");
    if (h->version != VKB_VERSION)
        FAIL(VKNN_ERROR_FILE, "The bundle is of format version %" PRIu32 ", this program reads version %u: "
             "build a newer vknn_run.c, or write the bundle with the vknn that this one comes from.",
             h->version, VKB_VERSION);
    NEED(h, header_bytes, h->header_bytes == sizeof *h);
    NEED_THAT(h, file_bytes, h->file_bytes == b->size, "that the file has this size (was it cut off?)");
    NEED_THAT(h, reserved[0], !memcmp(h->reserved, zeros, sizeof zeros), "that all 32 reserved bytes are 0");
    if (!pinned) return VKNN_OK;
    sha256_of(b->bytes, b->size, sizeof h->sha256, found);
    if (!memcmp(found, pinned, sizeof found) && !memcmp(h->sha256, pinned, sizeof found)) return VKNN_OK;
    FAIL(VKNN_ERROR_HASH, "The bundle's SHA-256 is not the one that was given: it is another file, or was "
         "changed. Give the right file, or the sum that `vknn bundle` prints of this one if you trust it.");
}

static vknn_status check_sections(bundle *b) {
    const vkb_section *table = (const vkb_section *)(const void *)(b->header + 1);
    uint64_t bytes = b->header->sections * (uint64_t)sizeof *table, start = sizeof *b->header + bytes;
    uint32_t seen = 0;
    NEED(b->header, sections, b->header->sections < VKB_SECTIONS && start <= b->size);
    NEED_THAT(b->header, table_crc, b->header->table_crc == crc32_of(table, (size_t)bytes), "of equal sums");
    EACH(section, s, table, b->header->sections) {
        const struct kind *kind = kinds + (s->kind < VKB_SECTIONS ? s->kind : 0); /* 0 is none */
        uint32_t alignment = s->kind == VKB_SECTION_DATA ? VKB_DATA_ALIGNMENT : VKB_ALIGNMENT;
        int large = kind->record_bytes == 1 && s->nbytes > UINT32_MAX;
        const uint8_t *at;
        NEED(s, kind, kind->record_bytes && !(seen >> s->kind & 1));
        NEED(s, offset, s->offset % alignment == 0 && s->offset >= start);
        NEED_THAT(s, nbytes, within(s->offset, s->nbytes, b->size), "that the section is within the file");
        EACH(section, o, table, s - table)
            NEED_THAT(s, offset, o->offset >= s->offset + s->nbytes || s->offset >= o->offset + o->nbytes,
                      "that no section overlaps another");
        NEED(s, record_bytes, s->record_bytes == kind->record_bytes);
        NEED(s, count, large ? !s->count : (uint64_t)s->count * kind->record_bytes == s->nbytes);
        at = b->bytes + s->offset, seen |= (uint32_t)1 << s->kind;
        NEED_THAT(s, crc, s->crc == (s->kind == VKB_SECTION_DATA ? 0 : crc32_of(at, (size_t)s->nbytes)),
                  "of equal sums");
        memcpy((char *)b + kind->view, &at, sizeof at);
        if (kind->record_bytes > 1) memcpy((char *)b + kind->count, &s->count, sizeof s->count);
        else memcpy((char *)b + kind->count, &s->nbytes, sizeof s->nbytes);
    }
    return VKNN_OK;
}

/* Each text ends within the section. */
static vknn_status check_texts(const bundle *b) {
    const char *end = b->strings + b->strings_bytes, *at = b->strings;
    vknn_message *const why = b->why;
    if (b->strings_bytes && !at[0] && !end[-1] && (at = utf8_end(at, end)) == end) return VKNN_OK;
    FAIL(VKNN_ERROR_FILE, "The bundle is damaged: strings, near byte %" PRIu64 ": texts are UTF-8 between a "
         "first and a last zero byte. Write it anew with vknn export.", (uint64_t)(at - b->strings));
}

/* Rules on records by themselves. */
static vknn_status check_fields(const bundle *b) {
    uint64_t data = 0;
#define TEXT(one, many, field) EACH_NEEDS(one, many, field, r->field < b->strings_bytes)
#define ZERO(one, many) EACH_NEEDS(one, many, reserved, !r->reserved)
#define RANGE(one, many, these, this) \
    EACH_NEEDS(one, many, these, within(r->first_##these, r->these, b->this##_count))
    VKB_TEXTS(TEXT) VKB_RESERVED(ZERO) VKB_RANGES(RANGE)
#undef TEXT
#undef ZERO
#undef RANGE
    EACH(plan, r, b->plans, b->plan_count) {
        for (int i = 0; i < 3; i++) NEED(r, arenas[i], r->arenas[i] <= MOST_BYTES);
        NEED(r, features, r->features < 2 * VKB_FEATURE_MEMORY_MODEL_DEVICE_SCOPE);
        NEED(r, features, !r->matrices || r->features & VKB_FEATURE_COOPERATIVE_MATRIX);
        NEED(r, ports, r->ports <= MOST_PORTS);
        NEED(r, examples, r->examples <= r->ports);
        NEED(r, vulkan, r->vulkan >> 22 == 1);
        NEED(r, storage_alignment, is_power_of_two(r->storage_alignment) && r->storage_alignment <= 256);
        NEED(r, texel_alignment, is_power_of_two(r->texel_alignment) && r->texel_alignment <= 256);
        NEED(r, subgroup_size, !r->subgroup_size || is_power_of_two(r->subgroup_size));
    }
    EACH(buffer, r, b->buffers, b->buffer_count) {
        NEED(r, role, r->role <= VKB_ROLE_WEIGHT);
        NEED(r, nbytes, r->nbytes && r->nbytes <= MOST_BYTES);
        NEED(r, offset, r->offset % 4 == 0);
    }
    EACH(step, r, b->steps, b->step_count) {
        NEED(r, kind, r->kind <= VKB_STEP_BARRIER);
        NEED(r, push, r->push % 4 == 0);
    }
    EACH(pipeline, r, b->pipelines, b->pipeline_count) {
        NEED(r, module, r->module < b->module_count);
        NEED(r, constants, r->constants <= MOST_CONSTANTS);
        NEED(r, slots, r->slots <= MOST_SLOTS);
        NEED(r, push_bytes, r->push_bytes % 4 == 0);
        NEED(r, flags, r->flags <= 1);
    }
    EACH(module, r, b->modules, b->module_count) {
        NEED(r, offset, r->offset % 4 == 0 && within(r->offset, r->nbytes, b->spirv_bytes));
        NEED(r, nbytes, r->nbytes % 4 == 0 && r->nbytes > 20);
    }
    EACH(slot, r, b->slots, b->slot_count) {
        NEED(r, view, r->view == 4 || r->view == 5 || r->view == 7);
        NEED(r, access, r->access >= 1 && r->access <= (r->view == UNIFORM_TEXEL ? 1 : 3));
    }
    EACH(blob, r, b->blobs, b->blob_count) {
        NEED(r, offset, r->offset % 256 == 0 && within(r->offset, r->nbytes, b->data_bytes));
        NEED(r, nbytes, (data += r->nbytes) <= b->data_bytes); /* no two lie over each other */
    }
    EACH(port, r, b->ports, b->port_count) {
        NEED(r, name, letters(b, r->name, MOST_PORTS) < MOST_PORTS);
        NEED(r, direction, r->direction <= VKB_DIRECTION_OUTPUT);
        NEED(r, type, r->type <= VKB_TYPE_FLOAT64);
        NEED(r, rank, r->rank <= VKB_MOST_AXES);
        NEED(r, quantized, r->quantized <= 1 && r->scale >= 0 && r->scale < 1e30f);
        NEED(r, layout, !*bundle_string(b, r->layout) || letters(b, r->layout, 9) == r->rank);
    }
    EACH(example, r, b->examples, b->example_count) {
        NEED(r, blob, r->blob < b->blob_count);
        NEED(r, port, r->absolute >= 0 && r->absolute < 1e30f && r->relative >= 0 && r->relative < 1e30f);
    }
    EACH_NEEDS(matrix, matrices, m, r->m && r->m <= 1024 && r->n && r->n <= 1024 && r->k && r->k <= 1024)
    return VKNN_OK;
}

/* ---- Shaders: programs, which no check makes safe; but they fit what is around them ---- */

#define OP(words, code) ((uint32_t)(words) << 16 | (code)) /* first word of an instruction, by its opcode */
#define EACH_OP(w, from, to) for (const uint32_t *w = (from); w < (to); w += *w >> 16)

/* Declarations; `doubt`: of what was looked up there is another, and drivers may take that. */
typedef struct shader { bundle *of; const uint32_t *begin, *body; int doubt; } shader;

static const uint32_t *words_of(const bundle *b, const vkb_module *module) {
    return (const uint32_t *)(const void *)(b->spirv + module->offset);
}

/* What makes a type, constant or variable; null if nothing does. */
static const uint32_t *made(shader *s, uint32_t id) {
    const uint32_t *found = NULL;
    if ((s->of->visits += (uint64_t)(s->body - s->begin)) < MOST_VISITS) EACH_OP(w, s->begin, s->body) {
        uint32_t op = *w & 0xffff, at = op >= 19 && op <= 33 ? 1 : (op >= 41 && op <= 52) || op == 59 ? 2 : 0;
        if (at && *w >> 16 > at && w[at] == id) s->doubt |= found != NULL, found = found ? found : w;
    }
    return found;
}

/* The operand of a decoration of an id, or of its member; null if it has none. */
static const uint32_t *decorated(shader *s, uint32_t id, uint32_t member, uint32_t decoration) {
    uint32_t n = member == VKB_NONE ? 1 : 2;
    const uint32_t *found = NULL;
    if ((s->of->visits += (uint64_t)(s->body - s->begin)) < MOST_VISITS) EACH_OP(w, s->begin, s->body)
        if (*w == OP(3 + n, 70 + n) && w[1] == id && w[1 + n] == decoration && (n == 1 || w[2] == member))
            s->doubt |= found != NULL, found = found ? found : w + 2 + n;
    return found;
}

/* Bytes of a number, a vector or an array with a stride; UINT64_MAX of anything else. */
static uint64_t type_bytes(shader *s, uint32_t id) {
    const uint32_t *type = made(s, id), *length, *stride;
    uint64_t n = 1;
    if (type && *type == OP(4, 28)) { /* OpTypeArray; ArrayStride */
        length = made(s, type[3]), stride = decorated(s, id, VKB_NONE, 6);
        return length && *length == OP(4, 43) && stride ? (uint64_t)length[3] * *stride : UINT64_MAX;
    }
    if (type && *type == OP(4, 23)) n = type[3], type = made(s, type[2]); /* OpTypeVector */
    if (!type || (*type != OP(4, 21) && *type != OP(3, 22)) || type[2] > 64) return UINT64_MAX;
    return n * (type[2] / 8); /* OpTypeInt, OpTypeFloat */
}

/* What a module's capabilities, which come first, need of a device; all bits if one is not known. */
static uint64_t needed_features(const uint32_t *begin, const uint32_t *end) {
    uint64_t all = 0;
    for (const uint32_t *w = begin; w < end && *w == OP(2, 17); w += 2) switch (w[1]) {
#define NEEDED(capability, features) case capability: all |= features; break;
        VKB_CAPABILITIES(NEEDED)
#undef NEEDED
        default: return UINT64_MAX;
    }
    return all;
}

/* Whether a decoration is whole: those that are looked up have one number. */
static int is_whole(const uint32_t *w) {
    uint32_t op = *w & 0xffff, n = *w >> 16;
    if (op == 72) return n == 5 || (n > 3 && w[3] != 35); /* OpMemberDecorate; Offset */
    return op != 71 || n == 4 || (n > 2 && w[2] != 1 && w[2] != 6 && w[2] != 11 && w[2] != 33 && w[2] != 34);
}

/* No function is there twice or calls itself: drivers put called ones in place of their calls, without end. */
static vknn_status check_calls(bundle *b, const vkb_module *m, const uint32_t *body, uint32_t entry) {
    const uint32_t *end = words_of(b, m) + m->nbytes / 4;
    uint32_t functions[MOST_FUNCTIONS], count = 0, behind = 0, mains = 0;
    EACH_OP(w, body, end) {
        if ((*w & 0xffff) != 54) continue; /* OpFunction */
        NEED_THAT(m, offset, count < MOST_FUNCTIONS, "that its functions are 1024 at most");
        functions[count++] = w[2], mains += w[2] == entry;
    }
    EACH_OP(w, body, end) {
        uint32_t op = *w & 0xffff, id = op == 54 ? w[2] : *w >> 16 > 3 ? w[3] : entry, found = 0, most;
        if (op != 54 && op != 57) continue; /* OpFunctionCall */
        most = op == 54 ? behind++ : functions[behind - 1] == entry ? count : behind - 1;
        NEED(m, nbytes, (b->visits += most) < MOST_VISITS);
        for (uint32_t i = 0; i < most; i++) found |= functions[i] == id;
        NEED_THAT(m, offset, op == 54 ? !found : found && id != entry,
                  "that each function is there once and calls those in front of it, main all others");
    }
    NEED_THAT(m, offset, mains == 1, "that the entry point is a function");
    return VKNN_OK;
}

static vknn_status check_module(bundle *b, const vkb_module *m) {
    const uint32_t *words = words_of(b, m), *end = words + m->nbytes / 4, *body = end;
    uint32_t heads = 0, models = 0, entries = 0, entry = 0, modes = 0, open = 0, last = 0;
    const uint32_t name = 0x6e69616d; /* "main" */
    NEED(m, offset, words[0] == 0x07230203 && words[1] >= 0x10000 && words[1] <= 0x10600);
    NEED_THAT(m, offset, words[3] <= MOST_IDS && !words[4], "that its ids are few, and of no schema");
    EACH_OP(w, words + 5, end) {
        uint32_t op = *w & 0xffff, n = *w >> 16;
        NEED_THAT(m, offset, n && n <= (uint64_t)(end - w), "that instructions of SPIR-V are whole");
        NEED_THAT(m, offset, op != 17 || (n == 2 && w == words + 5 + 2 * heads++ && heads <= 64),
                  "that capabilities, 64 at most, are in front");
        NEED_THAT(m, offset, op != 11 || (n == 6 && !memcmp(w + 2, "GLSL.std.450\0\0\0", 16)),
                  "that functions are imported of GLSL.std.450 alone");
        NEED_THAT(m, offset, op != 14 || (n == 3 && !models++ && !w[1] && (w[2] == 1 || w[2] == 3)),
                  "that its memory is addressed logically, by the model of GLSL or Vulkan");
        NEED_THAT(m, offset, op != 15 || (n >= 5 && !entries++ && w[1] == 5 && w[3] == name && !w[4]),
                  "that one entry point is there, main, of GLCompute");
        if (op == 15) entry = w[2];
        NEED_THAT(m, offset, op != 16 || (n == 6 && entries && w[1] == entry && w[2] == 17 && !modes++),
                  "that the entry point has one mode, LocalSize");
        NEED_THAT(m, offset, op != 331 && op != 332 && op != 5632 && op != 5633 && (op < 73 || op > 75),
                  "against modes and decorations by id or text, and decoration groups");
        NEED_THAT(m, offset, is_whole(w), "that decorations are whole");
        NEED_THAT(m, offset, body == end || !((op >= 11 && op <= 52 && op != 12) || op == 71 || op == 72
                  || (op == 59 && (n < 4 || w[3] != 7))), "that declarations are in front of functions");
        NEED_THAT(m, offset, op == 54 ? n == 5 && !open : op == 56 ? open
                  : body == end || open || op == 8 || op == 317, "that functions begin and end one by one");
        if (op == 54 && body == end) body = w;
        open = op == 54 || (open && op != 56), last = op;
    }
    NEED(m, offset, models == 1 && entries == 1);
    NEED_THAT(m, nbytes, last == 56, "that it ends with a function's end");
    return check_calls(b, m, body, entry);
}

/* The word of a pipeline's specialization constant; `otherwise` where it has none of this id. */
static uint32_t constant_word(const bundle *b, const vkb_pipeline *p, uint32_t id, uint32_t otherwise) {
    EACH(constant, c, b->constants + p->first_constants, p->constants)
        if (c->id == id) return c->word;
    return otherwise;
}

/* A number of a workgroup's size: a constant, or a specialization constant with the pipeline's word. */
static uint32_t size_word(shader *s, const vkb_pipeline *p, uint32_t id) {
    const uint32_t *number = made(s, id), *spec = decorated(s, id, VKB_NONE, 1); /* SpecId */
    if (!number || (*number != OP(4, 43) && *number != OP(4, 50))) return 0;
    return spec ? constant_word(s->of, p, *spec, number[3]) : number[3];
}

/* What is wrong with a variable, v; null if nothing is. */
static const char *fault_of(shader *s, const vkb_pipeline *p, const uint32_t *v) {
    const uint32_t *pointer = made(s, v[1]), *type = NULL, *set, *binding;
    uint32_t view = 0;
    if (v[3] == 1 || v[3] == 4 || v[3] == 6) return NULL; /* Input, Workgroup, Private */
    if (pointer && *pointer == OP(4, 32)) type = made(s, pointer[3]);
    if (v[3] == 9) { /* PushConstant */
        if (!type || (*type & 0xffff) != 30) return "that push constants are a structure";
        for (uint32_t i = 0; i < (*type >> 16) - 2; i++) {
            const uint32_t *offset = decorated(s, type[1], i, 35);
            if (!offset || !within(*offset, type_bytes(s, type[2 + i]), p->push_bytes))
                return "that its push constants are within push_bytes";
        }
        return NULL;
    }
    set = decorated(s, v[2], VKB_NONE, 34), binding = decorated(s, v[2], VKB_NONE, 33);
    if (!set || *set || !binding || *binding >= p->slots) return "that its bindings are among the slots";
    if (v[3] == 12 && type && (*type & 0xffff) == 30) view = STORAGE_BUFFER; /* StorageBuffer, OpTypeStruct */
    if (type && *type == OP(3, 27)) type = made(s, type[2]); /* OpTypeSampledImage */
    if (v[3] == 0 && type && *type == OP(9, 25) && type[3] == 5) /* UniformConstant, OpTypeImage of buffers */
        view = type[7] == 1 ? UNIFORM_TEXEL : STORAGE_TEXEL;
    if (view != s->of->slots[p->first_slots + *binding].view) return "that its bindings are as their slots";
    return NULL;
}

static vknn_status check_pipeline(bundle *b, const vkb_pipeline *p) {
    const vkb_module *module = b->modules + p->module;
    const uint32_t *words = words_of(b, module), *end = words + module->nbytes / 4;
    uint32_t size[3], local[3] = {0}, built_in = 0;
    const uint32_t *word = NULL; /* the last specialized one */
    shader s = {b, words + 5, words + 5, 0};
    NEED(p, module, (b->visits += module->nbytes / 4) < MOST_VISITS);
    while (s.body < end && (*s.body & 0xffff) != 54) s.body += *s.body >> 16; /* OpFunction */
    EACH(constant, c, b->constants + p->first_constants, p->constants)
        EACH(constant, other, b->constants + p->first_constants, c - (b->constants + p->first_constants))
            NEED(c, id, c->id != other->id);
    NEED_THAT(p, module, needed_features(s.begin, s.body) != UINT64_MAX, "that its capabilities are known");
    EACH_OP(w, s.begin, s.body) {
        const char *fault = NULL;
        if ((*w & 0xffff) == 59) fault = *w >> 16 < 4 ? "that variables are whole" : fault_of(&s, p, w);
        NEED_THAT(p, module, !fault, fault);
        NEED_THAT(p, module, (*w & 0xffff) != 50 || (*w == OP(4, 50)
                  && ((word && word[1] == w[1]) || type_bytes(&s, w[1]) == 4)),
                  "that specialized words have 32 bits");
        if (*w == OP(4, 50)) word = w;
        if (*w == OP(6, 16) && w[2] == 17 && !built_in) memcpy(local, w + 3, sizeof local); /* LocalSize */
        if (*w == OP(4, 71) && w[2] == 11 && w[3] == 25) { /* BuiltIn WorkgroupSize, which stands above it */
            const uint32_t *all = made(&s, w[1]);
            int whole = all && (*all == OP(6, 44) || *all == OP(6, 51)) && type_bytes(&s, all[1]) == 12;
            for (int i = 0; i < 3; i++) local[i] = whole ? size_word(&s, p, all[3 + i]) : 0;
            NEED_THAT(p, module, whole && !built_in++, "that the workgroup's size is three words, once");
        }
    }
    NEED_THAT(p, module, !s.doubt, "that what makes or decorates its types, constants and variables is there once");
    for (uint32_t i = 0; i < 3; i++) size[i] = constant_word(b, p, i, 1);
    NEED_THAT(p, module, !memcmp(size, local, sizeof size), "that constants 0, 1, 2 are its workgroups");
    return VKNN_OK;
}

static vknn_status check_shaders(bundle *b) {
    EACH(module, m, b->modules, b->module_count) {
        NEED(m, nbytes, (b->visits += m->nbytes / 4) < MOST_VISITS);
        TRY(check_module(b, m));
    }
    EACH(pipeline, p, b->pipelines, b->pipeline_count) TRY(check_pipeline(b, p));
    return VKNN_OK;
}

/* ---- Plans: p the plan, r the record ---- */

static vknn_status check_buffers(const bundle *b, const vkb_plan *p) {
    uint64_t weights = 0;
    EACH(buffer, r, b->buffers + p->first_buffers, p->buffers)
        if (r->role == VKB_ROLE_WEIGHT) {
            NEED(r, offset, !r->offset);
            NEED(r, blob, r->blob < b->blob_count);
            NEED(r, nbytes, r->nbytes >= b->blobs[r->blob].nbytes && (weights += r->nbytes) <= MOST_BYTES);
        } else {
            NEED(r, nbytes, within(r->offset, r->nbytes, p->arenas[r->role]));
            NEED(r, blob, r->blob == VKB_NONE);
        }
    return VKNN_OK;
}

static vknn_status check_binding(const bundle *b, const vkb_plan *p, const vkb_binding *r,
                                 const vkb_slot *slot) {
    const vkb_buffer *buffer = b->buffers + p->first_buffers;
    uint64_t texel = 0;
    NEED(r, buffer, r->buffer < p->buffers);
    buffer += r->buffer;
    NEED(r, buffer, buffer->role != VKB_ROLE_WEIGHT || slot->access == 1);
#define TEXEL(number, bytes) if (r->format == number) texel = bytes;
    VKB_TEXELS(TEXEL)
#undef TEXEL
    NEED(r, format, slot->view == STORAGE_BUFFER ? !r->format : texel > 0);
    NEED(r, buffer, buffer->offset % (texel ? p->texel_alignment : p->storage_alignment) == 0);
    NEED(r, buffer, texel || buffer->nbytes <= p->storage_range);
    NEED(r, buffer, !texel || (buffer->nbytes % texel == 0 && buffer->nbytes / texel <= p->texel_elements));
    return VKNN_OK;
}

static vknn_status check_dispatch(bundle *b, const vkb_plan *p, const vkb_step *r) {
    const vkb_pipeline *pipeline = b->pipelines;
    uint64_t invocations = 1, all, features;
    uint32_t views[8] = {0};
    const vkb_module *module;
    const uint32_t *words;
    NEED(r, pipeline, r->pipeline < b->pipeline_count);
    pipeline += r->pipeline;
    NEED(r, bindings, r->bindings == pipeline->slots);
    NEED(r, push, within(r->push, pipeline->push_bytes, b->push_bytes));
    module = b->modules + pipeline->module, words = words_of(b, module);
    features = needed_features(words + 5, words + module->nbytes / 4);
    if (pipeline->flags) features |= VKB_FEATURE_FULL_SUBGROUPS;
    NEED(p, features, !(features & ~p->features));
    NEED(p, vulkan, (p->vulkan >> 12 & 1023) >= (words[1] <= 0x10300 ? 1u : words[1] <= 0x10500 ? 2u : 3u));
    NEED(p, push_bytes, pipeline->push_bytes <= p->push_bytes);
    NEED(p, shared_memory, module->shared_memory <= p->shared_memory);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t size = constant_word(b, pipeline, i, 1);
        NEED(p, group_size[0], size && size <= p->group_size[i]);
        NEED(p, group_invocations, (invocations *= size) <= p->group_invocations);
    }
    all = invocations;
    for (int i = 0; i < 3; i++) {
        NEED(r, groups[0], r->groups[i] && r->groups[i] <= p->group_count[i]);
        NEED(r, groups[0], all <= MOST_WORK / r->groups[i]);
        all *= r->groups[i];
    }
    NEED(r, groups[0], (b->work += all) <= MOST_WORK);
    for (uint32_t i = 0; i < r->bindings; i++) {
        const vkb_slot *slot = b->slots + pipeline->first_slots + i;
        TRY(check_binding(b, p, b->bindings + r->first_bindings + i, slot));
        views[slot->view]++;
    }
    NEED(p, storage_buffers, views[STORAGE_BUFFER] <= p->storage_buffers);
    NEED(p, uniform_texel_buffers, views[UNIFORM_TEXEL] <= p->uniform_texel_buffers);
    NEED(p, storage_texel_buffers, views[STORAGE_TEXEL] <= p->storage_texel_buffers);
    return VKNN_OK;
}

static vknn_status check_move(bundle *b, const vkb_plan *p, const vkb_step *r) {
    const vkb_buffer *source = b->buffers + p->first_buffers, *target = source;
    uint64_t from, to;
    NEED(r, target, r->target < p->buffers);
    target += r->target;
    NEED(r, target, target->role != VKB_ROLE_WEIGHT);
    NEED(r, target, r->kind == VKB_STEP_COPY || target->nbytes % 4 == 0);
    NEED(r, target, (b->work += (r->kind == VKB_STEP_COPY ? r->nbytes : target->nbytes) / 4) <= MOST_WORK);
    if (r->kind == VKB_STEP_FILL) return VKNN_OK;
    NEED(r, source, r->source < p->buffers);
    source += r->source;
    NEED(r, nbytes, r->nbytes); /* of any size: float16s are joined by copies */
    NEED(r, source_offset, within(r->source_offset, r->nbytes, source->nbytes));
    NEED(r, target_offset, within(r->target_offset, r->nbytes, target->nbytes));
    from = source->offset + r->source_offset, to = target->offset + r->target_offset;
    NEED(r, nbytes, source->role != target->role || from + r->nbytes <= to || to + r->nbytes <= from);
    return VKNN_OK;
}

static vknn_status check_steps(bundle *b, const vkb_plan *p) {
    uint64_t flops = 0, traffic = 0;
    uint32_t last = 0;
    EACH(step, r, b->steps + p->first_steps, p->steps) {
        NEED(r, flops, r->flops <= UINT64_MAX - flops);
        NEED(r, traffic, r->traffic <= UINT64_MAX - traffic);
        flops += r->flops, traffic += r->traffic;
        if (r->kind == VKB_STEP_DISPATCH) TRY(check_dispatch(b, p, r));
        else if (r->kind != VKB_STEP_BARRIER) TRY(check_move(b, p, r));
    }
    EACH(submit, r, b->submits + p->first_submits, p->submits) {
        NEED(r, end, r->end <= p->steps && (r->end > last || !p->steps));
        last = r->end;
    }
    NEED_THAT(p, submits, last == p->steps, "that the last one ends with the steps");
    return VKNN_OK;
}

static vknn_status check_port(const bundle *b, const vkb_plan *p, const vkb_port *r) {
    const vkb_buffer *buffers = b->buffers + p->first_buffers, *count = buffers;
    int open = r->count != VKB_NONE;
    NEED(r, buffer, r->buffer < p->buffers && buffers[r->buffer].role == r->direction);
    NEED(r, buffer, port_bytes(r) <= buffers[r->buffer].nbytes);
    NEED(r, count, !open || (r->count < p->buffers && r->direction == VKB_DIRECTION_OUTPUT));
    if (open) count += r->count;
    NEED(r, count, !open || (count->role == VKB_ROLE_OUTPUT && count->nbytes >= 4));
    NEED(r, open_axis, !open || r->open_axis < r->rank);
    for (uint32_t i = 0; i < VKB_MOST_AXES; i++)
        NEED(r, dims[i], r->dims[i] == 1 || (i < r->rank && !(open && i < r->open_axis)));
    return VKNN_OK;
}

static vknn_status check_rest(bundle *b, const vkb_plan *p) {
    const vkb_buffer *buffers = b->buffers + p->first_buffers;
    EACH(port, r, b->ports + p->first_ports, p->ports) {
        TRY(check_port(b, p, r));
        NEED(r, buffer, (b->work += port_bytes(r) / 4) <= MOST_WORK); /* it may be staged */
    }
    EACH(state, r, b->states + p->first_states, p->states) {
        NEED(r, input, r->input < p->buffers && buffers[r->input].role == VKB_ROLE_INPUT);
        NEED(r, output, r->output < p->buffers && buffers[r->output].role == VKB_ROLE_OUTPUT);
        NEED(r, nbytes, r->nbytes && r->nbytes <= buffers[r->input].nbytes);
        NEED(r, nbytes, r->nbytes <= buffers[r->output].nbytes && (b->work += r->nbytes / 4) <= MOST_WORK);
        NEED(r, blob, r->blob == VKB_NONE || r->blob < b->blob_count);
        NEED(r, blob, r->blob == VKB_NONE || b->blobs[r->blob].nbytes == r->nbytes);
    }
    EACH(example, r, b->examples + p->first_examples, p->examples) {
        const vkb_port *port = b->ports + p->first_ports;
        uint64_t bytes = b->blobs[r->blob].nbytes;
        NEED(r, port, r->port < p->ports);
        port += r->port;
        NEED(r, blob, bytes == port_bytes(port) || (port->count != VKB_NONE && bytes < port_bytes(port)));
        NEED(r, blob, (b->work += 16 * bytes) <= MOST_WORK); /* summed and compared by the host */
    }
    return VKNN_OK;
}

static vknn_status check_plans(bundle *b) {
    vkb_plan next = {0};
    NEED(b->header, sections, b->plan_count > 0);
    EACH(plan, p, b->plans, b->plan_count) {
        b->work = 0;
#define NEXT(many, one) NEED(p, first_##many, p->first_##many == next.many); next.many += p->many;
        VKB_OF_PLANS(NEXT) /* so that no record is checked for more than one plan */
#undef NEXT
        TRY(check_buffers(b, p));
        TRY(check_steps(b, p));
        TRY(check_rest(b, p));
    }
#define LAST(many, one) NEED(b->plans + b->plan_count - 1, many, next.many == b->one##_count);
    VKB_OF_PLANS(LAST)
#undef LAST
    return VKNN_OK;
}

/* Views of a bundle, all checked. Its bytes lie at a multiple of 8 and have to stay; `sha256`: 32 bytes, or
 * null. Bytes of the data are not read: whoever reads a blob compares its CRC. */
static vknn_status bundle_open(bundle *b, const void *bytes, size_t size, const uint8_t sha256[32],
                               vknn_message *why) {
    memset(b, 0, sizeof *b);
    b->why = why;
    for (const struct kind *kind = kinds; kind < kinds + VKB_SECTIONS; kind++)
        if (kind->record_bytes) memcpy((char *)b + kind->view, &bytes, sizeof bytes);
    b->bytes = (const uint8_t *)bytes, b->size = bytes ? size : 0, b->header = (const vkb_header *)bytes;
    if ((uintptr_t)bytes % 8)
        FAIL(VKNN_ERROR_ARGUMENT, "The bundle's bytes have to lie at a multiple of 8: copy them to memory of "
             "malloc.");
    TRY(check_header(b, sha256));
    TRY(check_sections(b));
    TRY(check_texts(b));
    TRY(check_fields(b));
    TRY(check_shaders(b));
    return check_plans(b);
}

/* vknn-run: runs a bundle on arrays. Exit status 0; 1 where a run fails or the test differs; 2 where what was
 * asked for does not fit: usage, arrays, names, shapes, --test of a bundle without an example. */
#define _FILE_OFFSET_BITS 64 /* as vknn_run.c: it is the same fopen */
#include "vknn_run.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#include <windows.h>
#include <shellapi.h>
#else
#include <sys/stat.h>
#endif

#define COMPLAIN(status, ...) (complain(__VA_ARGS__), status)
#define COUNT(array) (sizeof(array) / sizeof(*(array)))
enum { MOST_HEADER = 9999, BEST = 5 };
static const char usage[] =
    "usage: vknn-run net.vkb [--input NAME=FILE.npy]... [--output NAME=FILE.npy]... [options]\n"
    "       vknn-run net.vkb --test [--json]  run the bundle's example: 0, or 1 and how far off\n"
    "       vknn-run --devices | --help     list the Vulkan devices; the options\n"
#if defined(VKNN_SMALL)
    "options: docs/phones.md\n";
#else
    "  --shape TEXT, --target NAME      which plan: shapes as \"data=3,224,224\"; else the first that suits\n"
    "  --device NAME, --cache DIR       a device's number, part of its name or UUID; keep pipelines there\n"
    "  --runs N, --profile [FILE]       so many runs; time each step, as JSON for vknn report (missing\n"
    "                                   inputs are zeros; FILE behind net.vkb; else standard output)\n"
    "  --sha256 HEX, --robust           refuse other bundles; shaders stay within the net's memory\n"
    "  --staged, --verbose              use staging memory even where the device shares the host's; tell\n"
    "                                   which device, plan and memory are used, and of the cache\n"
    "  --time-limit S, --memory-limit N seconds of a run (30); bytes of device memory\n";
#endif

/* How put() writes: line ends are kept; as JSON, where all but ASCII is \\u.... */
enum { LINES = 1, JSON = 2 };
#define NO_CHARACTER 0x110000u /* with the byte that is no UTF-8 */

/* The character that begins here; returns where the next one does. Texts end with 0, which continues none. */
static const unsigned char *decoded(const unsigned char *at, uint32_t *character) {
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    uint32_t first = *at, more = first < 0xc0 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3, value, i = 1;
    *character = first < 0x80 ? first : NO_CHARACTER | first;
    for (value = first & (0x3f >> more); i <= more && (at[i] & 0xc0) == 0x80; i++)
        value = value << 6 | (at[i] & 0x3f);
    if (!more || first > 0xf4 || i <= more || value < least[more] || value > 0x10ffff || value >> 11 == 0x1b)
        return at + 1;
    *character = value;
    return at + i;
}

/* Whether a character steers terminals or hides: controls, marks of direction, spaces of no width, tags. */
static int steers(uint32_t c) {
    static const uint32_t ranges[][2] = {{0, 31}, {127, 159}, {0xad, 0xad}, {0x61c, 0x61c}, {0x200b, 0x200f},
        {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < COUNT(ranges); i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return 1;
    return c >= NO_CHARACTER;
}

/* A text that others made, a bundle or a driver: what could steer a terminal is escaped. */
static void put(FILE *file, const char *text, int how) {
    uint32_t c;
    for (const unsigned char *at = (const unsigned char *)text, *next; *at; at = next) {
        next = decoded(at, &c);
        int plain = how & JSON ? c >= 32 && c < 127 : !steers(c);
        if (plain || (c == '\n' && how & LINES)) {
            fwrite(at, 1, (size_t)(next - at), file);
        } else if (how & JSON) {
            c = c < NO_CHARACTER ? c : 0xfffd;
            if (c > 0xffff)
                fprintf(file, "\\u%04x", (unsigned)(0xd7c0 + (c >> 10))), c = 0xdc00 | (c & 0x3ff);
            fprintf(file, "\\u%04x", (unsigned)c);
        } else if (c < 256 || c >= NO_CHARACTER) {
            fprintf(file, "\\x%02x", (unsigned)(c & 255));
        } else {
            fprintf(file, c > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)c);
        }
    }
}

#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
static void complain(const char *format, ...) {
    char text[6000];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    fputs("vknn-run: ", stderr);
    put(stderr, text, 0);
    fputc('\n', stderr);
}

/* By vknn_type. */
static const char *const types[] = {"<f4", "<f2", "|i1", "|u1", "<i2", "<u2",
                                    "<i4", "<u4", "<i8", "<u8", "|b1", "<f8"};

/* The entries of a .npy header for a port, without spaces. */
static void entries(const vknn_port *port, char text[3][256]) {
    size_t at = (size_t)sprintf(text[2], "'shape':(");
    sprintf(text[0], "'descr':'%s'", types[port->type]);
    sprintf(text[1], "'fortran_order':False");
    for (uint32_t i = 0; i < port->rank; i++)
        at += (size_t)sprintf(text[2] + at, i ? ",%llu" : "%llu", (unsigned long long)port->dims[i]);
    sprintf(text[2] + at, port->rank == 1 ? ",)" : ")");
}

/* Whether a header has these entries, in any order, and nothing else. Takes its spaces away. */
static int header_fits(char *text, size_t size, char wanted[3][256]) {
    char whole[800];
    size_t kept = 0;
    int fits = 0, quoted = 0;
    for (size_t i = 0; i < size; i++) {
        quoted ^= text[i] == '\'';
        if (quoted || (text[i] != ' ' && text[i] != '\n'))
            text[kept++] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    }
    if (kept > 1 && text[kept - 2] == ',' && text[kept - 1] == '}')
        text[--kept - 1] = '}'; /* a comma may stand behind the last */
    text[kept] = 0;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            if (i != k) {
                sprintf(whole, "{%s,%s,%s}", wanted[i], wanted[k], wanted[3 - i - k]);
                fits |= !strcmp(text, whole);
            }
    return fits;
}

/* Paths are UTF-8 on all systems. */
#if defined(_WIN32)
enum { MOST_PATH = 4096 };
static FILE *open_path(const char *path, const char *mode) {
    wchar_t wide[MOST_PATH], how[4];
    if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, MOST_PATH)) return errno = ENOENT, NULL;
    MultiByteToWideChar(CP_UTF8, 0, mode, -1, how, 4);
    return _wfopen(wide, how);
}

static void remove_path(const char *path) {
    wchar_t wide[MOST_PATH];
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, MOST_PATH)) _wremove(wide);
}

/* The command line as UTF-8, which main() does not get; kept to the end. NULL without memory for it. */
static char **arguments_of(int *count) {
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), count);
    char **all = wide ? calloc((size_t)*count + 1, sizeof *all) : NULL;
    for (int i = 0; all && i < *count; i++) {
        int size = WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, NULL, 0, NULL, NULL);
        all[i] = size > 0 ? malloc((size_t)size) : NULL;
        if (!all[i]) return NULL;
        WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, all[i], size, NULL, NULL);
    }
    return all;
}
#else
#define open_path fopen

static void remove_path(const char *path) {
    struct stat is;
    if (!stat(path, &is) && S_ISREG(is.st_mode)) remove(path); /* no device */
}
#endif

/* Closes what was written, or could not be opened. Where that failed it says so, and no half of a file stays. */
static int close_written(const char *path, FILE *file, int good) {
    good = good && file && !ferror(file) && !fflush(file); /* fclose may not tell, in wine */
    good = (!file || file == stdout || !fclose(file)) && good;
    if (good)
        return 0;
    complain("\"%s\" cannot be written: %s", file == stdout ? "standard output" : path, strerror(errno));
    if (file && file != stdout)
        remove_path(path);
    return 1;
}

static int read_npy(const char *path, const vknn_port *port, void *data) {
    unsigned char head[12] = {0};
    char text[MOST_HEADER + 1] = "", want[3][256];
    int fits = 0, whole = 0;
    FILE *file = open_path(path, "rb");
    entries(port, want);
    if (file && fread(head, 1, 10, file) == 10 && !memcmp(head, "\x93NUMPY", 6) && head[6] >= 1 &&
        head[6] <= 3 && !head[7] && (head[6] == 1 || fread(head + 10, 1, 2, file) == 2)) {
        size_t size = head[8] | (size_t)head[9] << 8 | (size_t)head[10] << 16 | (size_t)head[11] << 24;
        size = size <= MOST_HEADER && fread(text, 1, size, file) == size ? size : 0;
        fits = header_fits(text, size, want);
        whole = fits && fread(data, 1, port->bytes, file) == port->bytes && fgetc(file) == EOF;
    }
    if (!file)
        return COMPLAIN(2, "input %s: \"%s\": %s", port->name, path, strerror(errno));
    fclose(file);
    if (!fits)
        return COMPLAIN(2, "%s: %.200s; input %s takes .npy {%s,%s,%s}", path,
                        *text ? text : "no .npy file", port->name, want[0], want[1], want[2]);
    return whole ? 0 : COMPLAIN(2, "%s does not end where its header says", path);
}

static int write_npy(const char *path, const vknn_port *port, const void *data) {
    char text[3][256], head[1024];
    FILE *file = open_path(path, "wb");
    entries(port, text);
    int size = sprintf(head, "{%s,%s,%s}", text[0], text[1], text[2]);
    int padded = (size + 11 + 63) / 64 * 64 - 10; /* the data begin at a multiple of 64 */
    int good = file && fprintf(file, "\x93NUMPY%c%c%c%c%-*s\n", 1, 0, padded & 255, padded >> 8, padded - 1,
                               head) > 0;
    return close_written(path, file, good && fwrite(data, 1, port->bytes, file) == port->bytes);
}

/* The five best classes of an output with labels, of which there may be more than elements. */
static void show_labels(const vknn_net *net, const vknn_port *port, const void *data) {
    const size_t elements = port->type == VKNN_FLOAT32 ? port->bytes / 4 : port->bytes;
    const uint32_t count = port->labels < elements ? port->labels : (uint32_t)elements;
    double last = 0, best = 0;
    uint32_t before = 0, chosen = 0;
    for (int n = 0; n < BEST && (!n || chosen < count); n++, last = best, before = chosen) {
        chosen = count;
        for (uint32_t i = 0; i < count; i++) {
            double value = port->type == VKNN_FLOAT32 ? ((const float *)data)[i]
                           : port->type == VKNN_INT8  ? ((const int8_t *)data)[i]
                                                      : ((const uint8_t *)data)[i];
            value = port->quantized ? port->scale * (value - port->zero_point) : value;
            if ((!n || value < last || (value == last && i > before)) &&
                (chosen == count ? value == value : value > best)) /* what is no number is no class */
                best = value, chosen = i;
        }
        const char *text = chosen < count ? vknn_label(net, port, chosen) : NULL;
        if (text) {
            fprintf(stdout, "%10.6f  ", best);
            put(stdout, text, 0);
            fputc('\n', stdout);
        }
    }
}

/* FILE of the "NAME=FILE" that has a port's name, and no longer one. */
static const char *given_for(vknn_net *net, const vknn_port *port, char **texts) {
    const size_t length = strlen(port->name);
    for (; *texts; texts++) {
        char *equals = *texts + length;
        vknn_port other;
        if (strncmp(*texts, port->name, length) || *equals != '=')
            continue;
        for (int longer = 0; !longer && (equals = strchr(equals + 1, '=')) != NULL; *equals = '=') {
            *equals = 0;
            longer = !vknn_find(net, port->direction, *texts, &other);
        }
        if (!equals)
            return *texts + length + 1;
    }
    return NULL;
}

static void told(void *user, const char *text) {
    (void)user;
    complain("%s", text);
}

static int failed(vknn_status status, const char *text) {
    return COMPLAIN(status == VKNN_ERROR_ARGUMENT ? 2 : 1, "%s: %s", vknn_status_name(status), text);
}

static int net_failed(const vknn_net *net, vknn_status status) {
    return failed(status, vknn_net_message(net));
}

/* Files become inputs; those that none is given for stay the zeros that they are, where that is allowed. */
static int set_inputs(vknn_net *net, char **given, int zeros) {
    vknn_port port;
    void *data;
    int status = 0;
    for (uint32_t i = 0; !status && !vknn_describe(net, VKNN_INPUT, i, &port); i++) {
        const char *file = given_for(net, &port, given);
        vknn_status code = vknn_borrow(net, VKNN_INPUT, port.name, &data, &port.bytes);
        if (code)
            status = net_failed(net, code);
        else if (file)
            status = read_npy(file, &port, data);
        else if (!zeros)
            status = COMPLAIN(2, "%s: --input NAME=FILE is missing", port.name);
    }
    return status;
}

/* Outputs become files, or where none is wanted labels are shown. */
static int take_outputs(vknn_net *net, char **given, int labels) {
    vknn_port port;
    void *data;
    int status = 0;
    for (uint32_t i = 0; !status && !vknn_describe(net, VKNN_OUTPUT, i, &port); i++) {
        const char *file = given_for(net, &port, given);
        if (!file && (!labels || *given || !port.labels))
            continue;
        vknn_status code = vknn_borrow(net, VKNN_OUTPUT, port.name, &data, &port.bytes);
        code = code ? code : vknn_shape(net, port.name, port.dims);
        port.bytes = (size_t)(types[port.type][2] - '0');
        for (uint32_t axis = 0; axis < port.rank; axis++)
            port.bytes *= (size_t)port.dims[axis];
        if (code)
            status = net_failed(net, code);
        else if (file)
            status = write_npy(file, &port, data);
        else if (port.type == VKNN_FLOAT32 || port.type == VKNN_INT8 || port.type == VKNN_UINT8)
            show_labels(net, &port, data);
    }
    return status;
}

/* A text to a file, or to standard output where no file is named. */
static int write_text(const char *path, const char *text, int how) {
    FILE *file = path ? open_path(path, "w") : stdout;
    if (file)
        put(file, text, how);
    return close_written(path, file, 1);
}

static int digest(const char *text, uint8_t bytes[32]) {
    int good = strlen(text) == 64 && strspn(text, "0123456789abcdefABCDEF") == 64;
    for (int i = 0; good && i < 32; i++) {
        const char two[3] = {text[2 * i], text[2 * i + 1], 0};
        bytes[i] = (uint8_t)strtoul(two, NULL, 16);
    }
    return good;
}

typedef struct arguments {
    vknn_context_options where;
    vknn_net_options what;
    const char *bundle, *json;
    double runs; /* 0: as many as are usual */
    int test, devices, profile, as_json, help, verbose;
    uint8_t sha256[32];
    char **inputs, **outputs; /* "NAME=FILE", a null pointer behind the last */
} arguments;

/* What follows an option, and where it goes. */
enum kind { NOTHING, TEXT, LIST, DIGEST, SECONDS, RUNS, BYTES };
#define OPTION(name, kind, field) {name, kind, offsetof(arguments, field)}
static const struct option {
    char name[15];
    uint8_t kind;
    uint16_t field;
} options[] = {
    OPTION("--shape", TEXT, what.shapes),         OPTION("--target", TEXT, what.target),
    OPTION("--device", TEXT, where.device),       OPTION("--cache", TEXT, where.cache),
    OPTION("--input", LIST, inputs),              OPTION("--output", LIST, outputs),
    OPTION("--sha256", DIGEST, sha256),           OPTION("--time-limit", SECONDS, what.time_limit),
    OPTION("--runs", RUNS, runs),                 OPTION("--memory-limit", BYTES, what.memory_limit),
    OPTION("--test", NOTHING, test),              OPTION("--json", NOTHING, as_json),
    OPTION("--robust", NOTHING, where.robust),    OPTION("--staged", NOTHING, what.staged),
    OPTION("--devices", NOTHING, devices),        OPTION("--help", NOTHING, help),
    OPTION("--verbose", NOTHING, verbose),
    OPTION("--profile", NOTHING, profile)};

/* Whether a text may follow an option; it goes where that says. */
static int taken(const struct option *option, void *field, char *text) {
    static const char characters[] = "eE+-.0123456789"; /* of seconds; of whole numbers the digits */
    static const double most[] = {1e9, 1e6, 1e18};
    char **list, *end;
    double number;
    if (option->kind == TEXT)
        return *(const char **)field = text, 1;
    if (option->kind == DIGEST)
        return digest(text, field);
    if (option->kind == LIST) {
        for (list = *(char ***)field; *list;)
            list++;
        return *list = text, 1;
    }
    number = strtod(text, &end);
    if (text[strspn(text, characters + (option->kind == SECONDS ? 0 : 5))] || *end ||
        !(number > 0 && number <= most[option->kind - SECONDS]))
        return 0;
    if (option->kind == BYTES)
        *(uint64_t *)field = (uint64_t)number;
    else
        *(double *)field = number;
    return 1;
}

/* Whether the arguments are as the usage says. */
static int parsed(arguments *a, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const struct option *option = options, *const last = options + COUNT(options) - 1;
        while (option <= last && strcmp(argv[i], option->name))
            option++;
        void *const field = option <= last ? (char *)a + option->field : NULL;
        if (!field) {
            if (*argv[i] == '-' || a->bundle)
                return COMPLAIN(0, "%s is no option, or a second bundle", argv[i]);
            a->bundle = argv[i];
        } else if (option->kind == NOTHING) {
            *(int *)field = 1;
            if (option == last && a->bundle && i + 1 < argc && *argv[i + 1] != '-') /* --profile */
                a->json = argv[++i];
        } else if (++i == argc) {
            return COMPLAIN(0, "%s: what it takes is missing", option->name);
        } else if (!taken(option, field, argv[i])) {
            return COMPLAIN(0, "%s \"%s\" is not what it takes", option->name, argv[i]);
        } else if (option->kind == DIGEST) {
            a->what.sha256 = a->sha256;
        }
    }
    if (!a->help && (a->test ? a->profile || a->runs > 0 || *a->inputs : a->as_json))
        return COMPLAIN(0, "--test has own inputs and runs; --json goes with it");
    return a->help || a->bundle || a->devices;
}

/* Of an --input or --output that no port takes. */
static int misnamed(vknn_net *net, const arguments *a) {
    char **const lists[] = {a->inputs, a->outputs};
    vknn_port port;
    for (int side = 0; side < 2; side++) {
        int used = 0;
        for (uint32_t i = 0; !vknn_describe(net, (vknn_direction)side, i, &port); i++)
            used += given_for(net, &port, lists[side]) != NULL;
        if (lists[side][used])
            return COMPLAIN(2, "a NAME fits none, or comes twice: %s", vknn_net_message(net));
    }
    return 0;
}

static int test(vknn_net *net, const arguments *a, char **text) {
    vknn_status code = a->as_json ? vknn_test_json(net, text) : vknn_test(net, text);
    int status = code ? net_failed(net, code) : 0, ran = !code || code == VKNN_ERROR_DIFFERS;
    int taken = ran ? take_outputs(net, a->outputs, 0) : 0;
    int shown = *text ? write_text(NULL, *text, a->as_json ? JSON | LINES : LINES) : 0;
    return status ? status : taken ? taken : shown;
}

static int run(vknn_net *net, const arguments *a, char **text) {
    uint32_t runs = a->runs > 0 ? (uint32_t)a->runs : a->profile ? 10 : 1;
    int status = set_inputs(net, a->inputs, a->profile);
    vknn_status code = !status && a->profile ? vknn_profile(net, runs, text) : VKNN_OK;
    for (uint32_t i = 0; !status && !a->profile && !code && i < runs; i++)
        code = vknn_run(net);
    if (status || code)
        return status ? status : net_failed(net, code);
    status = *text ? write_text(a->json, *text, JSON | LINES) : 0;
    int taken = take_outputs(net, a->outputs, !a->profile);
    return status ? status : taken;
}

int main(int argc, char **argv) {
#if defined(_WIN32)
    argv = arguments_of(&argc);
    if (!argv) return COMPLAIN(1, "the command line cannot be read");
    const UINT code_page = GetConsoleOutputCP(); /* the console's, which stays behind us; 0 without one */
    SetConsoleOutputCP(CP_UTF8);
#endif
    /* No more of them than arguments. */
    arguments a = {.inputs = calloc((size_t)argc + 1, sizeof *argv),
                   .outputs = calloc((size_t)argc + 1, sizeof *argv)};
    vknn_context *context = NULL;
    vknn_net *net = NULL;
    vknn_message why = {""};
    char *text = NULL;
    int status = 2;
    if (!a.inputs || !a.outputs || !parsed(&a, argc, argv)) {
        fputs(usage, stderr);
    } else if (a.help) {
        status = write_text(NULL, usage, LINES);
    } else if (a.devices) {
        vknn_status code = vknn_devices(&a.where, &text, &why);
        status = code ? failed(code, why.text) : write_text(NULL, text, LINES);
    } else {
        a.where.log = a.verbose ? told : NULL;
        vknn_status code = vknn_context_create(&a.where, &context, &why);
        code = code ? code : vknn_net_open_file(context, a.bundle, &a.what, &net, &why);
        status = code ? failed(code, why.text) : misnamed(net, &a);
        status = status   ? status
                 : a.test ? test(net, &a, &text)
                          : run(net, &a, &text);
    }
    vknn_free(&a.where, text);
    vknn_net_close(net);
    vknn_context_destroy(context);
    free(a.inputs);
    free(a.outputs);
#if defined(_WIN32)
    if (code_page) SetConsoleOutputCP(code_page);
#endif
    return status;
}

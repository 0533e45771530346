/* vknn_run.h for C++11: vknn::Net closes what it opened, knows element types, and throws.
 *
 *     vknn::Net net("net.vkb");
 *     net.set("data", pixels);                        // a std::vector<float>, an array, a span
 *     net.run();
 *     std::vector<float> scores = net.get<float>("prob");
 *
 * Nets that share a device: vknn::Context context; vknn::Net a(context, "a.vkb"), b(context, "b.vkb");
 * Each call throws vknn::Error where the C function fails. With VKNN_NO_EXCEPTIONS (set by itself
 * under -fno-exceptions) nothing throws: calls return the status, ok() says whether a net is open,
 * and message() what went wrong. Link with vknn_run.c; there is nothing else to build.
 */
#ifndef VKNN_RUN_HPP
#define VKNN_RUN_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "vknn_run.h"

#if !defined(VKNN_NO_EXCEPTIONS) && !defined(__cpp_exceptions) && !defined(__EXCEPTIONS) && \
    !defined(_CPPUNWIND)
#define VKNN_NO_EXCEPTIONS
#endif

#ifndef VKNN_NO_EXCEPTIONS
#include <stdexcept>
#endif

namespace vknn {

#ifndef VKNN_NO_EXCEPTIONS
/* A call that failed: what() is the runner's sentence. */
class Error : public std::runtime_error {
public:
    Error(vknn_status status, const std::string &text) : std::runtime_error(text), status_(status) {}
    vknn_status status() const noexcept { return status_; }

private:
    vknn_status status_;
};
#endif

/* Elements that lie elsewhere: a pointer and how many. */
template <class T> class Span {
public:
    Span() noexcept : data_(nullptr), size_(0) {}
    Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    T *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    T *begin() const noexcept { return data_; }
    T *end() const noexcept { return data_ + size_; }
    T &operator[](std::size_t index) const { return data_[index]; }

private:
    T *data_;
    std::size_t size_;
};

namespace detail {

/* Whether elements of a C++ type are a port's. std::uint16_t also carries float16, which C++ lacks,
 * and bytes carry truth values. */
template <class T> inline bool is_type(vknn_type type) noexcept {
    typedef typename std::remove_cv<T>::type U;
    static_assert(std::is_arithmetic<U>::value, "elements of ports are numbers");
    static_assert(sizeof(U) <= 8, "no port has elements this long");
    if (std::is_floating_point<U>::value)
        return type == (sizeof(U) == 8 ? VKNN_FLOAT64 : VKNN_FLOAT32);
    if (std::is_same<U, bool>::value)
        return type == VKNN_BOOL;
    const bool sign = std::is_signed<U>::value;
    switch (sizeof(U)) {
    case 1: return type == (sign ? VKNN_INT8 : VKNN_UINT8) || type == VKNN_BOOL;
    case 2: return type == (sign ? VKNN_INT16 : VKNN_UINT16) || (!sign && type == VKNN_FLOAT16);
    case 4: return type == (sign ? VKNN_INT32 : VKNN_UINT32);
    default: return type == (sign ? VKNN_INT64 : VKNN_UINT64);
    }
}

inline const char *type_name(vknn_type type) noexcept {
    static const char *const names[] = {"float32", "float16", "int8",  "uint8",  "int16", "uint16",
                                        "int32",   "uint32",  "int64", "uint64", "bool",  "float64"};
    const unsigned index = static_cast<unsigned>(type);
    return index < sizeof(names) / sizeof(*names) ? names[index] : "of an unknown type";
}

inline std::size_t type_size(vknn_type type) noexcept {
    static const unsigned char sizes[] = {4, 2, 1, 1, 2, 2, 4, 4, 8, 8, 1, 8};
    const unsigned index = static_cast<unsigned>(type);
    return index < sizeof(sizes) ? sizes[index] : 1;
}

/* A context and the options it was made with, which freeing its texts takes. */
struct Owner {
    vknn_context *context;
    vknn_context_options options;
    Owner() noexcept : context(nullptr), options() {}
    Owner(const Owner &) = delete;
    Owner &operator=(const Owner &) = delete;
    ~Owner() {
        if (context)
            vknn_context_destroy(context);
    }
};

} // namespace detail

/* What Context and Net have in common: a status, a sentence, and what a failure does. */
class Outcome {
public:
    /* Whether it is open. Without exceptions, to be asked behind the constructor. */
    bool ok() const noexcept { return status_ == VKNN_OK; }
    explicit operator bool() const noexcept { return ok(); }
    /* How opening went. */
    vknn_status status() const noexcept { return status_; }
    /* What the last call that failed has to say. */
    const std::string &message() const noexcept { return message_; }

protected:
    Outcome() : status_(VKNN_ERROR_ARGUMENT) {}
    Outcome(const Outcome &) = delete;
    Outcome &operator=(const Outcome &) = delete;

    vknn_status fail(vknn_status status, std::string text) {
        message_ = std::move(text);
#ifndef VKNN_NO_EXCEPTIONS
        throw Error(status, message_);
#else
        return status;
#endif
    }
    vknn_status opened(vknn_status status, const vknn_message &why) {
        status_ = status;
        if (status == VKNN_OK)
            message_.clear();
        return status == VKNN_OK ? status : fail(status, why.text);
    }
    void take(Outcome &other) noexcept {
        status_ = other.status_;
        message_.swap(other.message_);
        other.status_ = VKNN_ERROR_ARGUMENT;
    }

private:
    vknn_status status_;
    std::string message_;
};

/* A device, its compiled pipelines and weights, which nets share. Nets keep it alive. */
class Context : public Outcome {
public:
    /* Texts of the options are read before it returns; allocator, log and lock must stay. */
    explicit Context(const vknn_context_options &options = vknn_context_options())
        : owner_(std::make_shared<detail::Owner>()) {
        vknn_message why = vknn_message();
        owner_->options = options;
        const vknn_status status = vknn_context_create(&options, &owner_->context, &why);
        owner_->options.device = owner_->options.cache = nullptr; /* the caller's, and no longer needed */
        opened(status, why);
    }
    Context(Context &&other) noexcept : owner_(std::move(other.owner_)) { take(other); }
    Context &operator=(Context &&other) noexcept {
        if (this != &other) {
            owner_ = std::move(other.owner_);
            take(other);
        }
        return *this;
    }

    /* Name of the device; empty where there is none. */
    std::string device() const {
        return ok() ? std::string(vknn_context_device(owner_->context)) : std::string();
    }

private:
    friend class Net;
    std::shared_ptr<detail::Owner> owner_;
};

/* A bundle, ready to run. Used by one thread at a time; only cancel() may come from another. */
class Net : public Outcome {
public:
    /* From a file, on a device of its own choice. */
    explicit Net(const std::string &path, const vknn_net_options &options = vknn_net_options())
        : net_(nullptr) {
        Context context;
        open(context, path, options);
    }
    Net(const Context &context, const std::string &path,
        const vknn_net_options &options = vknn_net_options())
        : net_(nullptr) {
        open(context, path, options);
    }
    /* From memory. With options.keeps_memory the bytes must stay until the net is gone. */
    Net(const Context &context, const void *bytes, std::size_t size,
        const vknn_net_options &options = vknn_net_options())
        : net_(nullptr) {
        vknn_message why = vknn_message();
        if (begins(context))
            opened(vknn_net_open_memory(owner_->context, bytes, size, &options, &net_, &why), why);
    }
    Net(Net &&other) noexcept : owner_(std::move(other.owner_)), net_(other.net_) {
        other.net_ = nullptr;
        take(other);
    }
    Net &operator=(Net &&other) noexcept {
        if (this != &other) {
            close();
            owner_ = std::move(other.owner_);
            net_ = other.net_;
            other.net_ = nullptr;
            take(other);
        }
        return *this;
    }
    ~Net() { close(); }

    /* The C handle, for what this class does not wrap; null where none is open. */
    vknn_net *handle() const noexcept { return net_; }
    /* Bytes of device memory, weights included. */
    std::uint64_t memory() const noexcept { return net_ ? vknn_net_memory(net_) : 0; }

    std::vector<vknn_port> inputs() { return ports(VKNN_INPUT); }
    std::vector<vknn_port> outputs() { return ports(VKNN_OUTPUT); }
    /* One port; all zeros where there is no such name and nothing throws. */
    vknn_port port(vknn_direction direction, const std::string &name) {
        vknn_port found = vknn_port();
        if (find(direction, name, &found) != VKNN_OK)
            found = vknn_port();
        return found;
    }
    /* Name of a class; empty where it has none. */
    std::string label(const vknn_port &output, std::uint32_t index) const {
        const char *text = net_ ? vknn_label(net_, &output, index) : nullptr;
        return text ? std::string(text) : std::string();
    }
    /* Sizes of an output: behind a run those that it had, where they depend on data. */
    std::vector<std::uint64_t> shape(const std::string &output) {
        vknn_port found = vknn_port();
        std::uint64_t dims[VKNN_MOST_AXES] = {0};
        if (find(VKNN_OUTPUT, output, &found) != VKNN_OK)
            return std::vector<std::uint64_t>();
        if (!found.open)
            return std::vector<std::uint64_t>(found.dims, found.dims + found.rank);
        if (checked(vknn_shape(net_, output.c_str(), dims)) != VKNN_OK)
            return std::vector<std::uint64_t>();
        return std::vector<std::uint64_t>(dims, dims + found.rank);
    }

    /* An input's elements, all of them. The type must be the port's. */
    template <class T> vknn_status set(const std::string &input, const T *data, std::size_t count) {
        const vknn_status status = typed<T>(VKNN_INPUT, input);
        return status != VKNN_OK ? status : set_bytes(input, data, count * sizeof(T));
    }
    template <class T, std::size_t N> vknn_status set(const std::string &input, const T (&array)[N]) {
        return set(input, array, N);
    }
    /* Of whatever has data() and size(): vector, array, Span, std::span. (No vector<bool>: uint8_t.) */
    template <class C> auto set(const std::string &input, const C &container)
        -> decltype(container.data(), container.size(), VKNN_OK) {
        return set(input, container.data(), container.size());
    }
    /* Whatever the type is: for classes of float16, pictures, structures. */
    vknn_status set_bytes(const std::string &input, const void *data, std::size_t bytes) {
        return usable() ? checked(vknn_set(net_, input.c_str(), data, bytes)) : VKNN_ERROR_ARGUMENT;
    }

    /* An output's elements into memory that has room for just those. */
    template <class T> vknn_status get(const std::string &output, T *data, std::size_t count) {
        const vknn_status status = typed<T>(VKNN_OUTPUT, output);
        return status != VKNN_OK ? status : get_bytes(output, data, count * sizeof(T));
    }
    template <class T, std::size_t N> vknn_status get(const std::string &output, T (&array)[N]) {
        return get(output, array, N);
    }
    template <class C> auto get(const std::string &output, C &&container)
        -> decltype(container.data(), container.size(), VKNN_OK) {
        return get(output, container.data(), container.size());
    }
    /* Into a vector, which takes the output's size. */
    template <class T, class A> vknn_status get(const std::string &output, std::vector<T, A> &data) {
        vknn_status status = typed<T>(VKNN_OUTPUT, output);
        std::size_t bytes = 0;
        if (status == VKNN_OK)
            status = size_of(output, &bytes);
        if (status != VKNN_OK)
            return status;
        data.resize(bytes / sizeof(T));
        return get_bytes(output, data.data(), bytes);
    }
    /* As a new vector; empty on failure where nothing throws. */
    template <class T> std::vector<T> get(const std::string &output) {
        std::vector<T> data;
        if (get(output, data) != VKNN_OK)
            data.clear();
        return data;
    }
    vknn_status get_bytes(const std::string &output, void *data, std::size_t bytes) {
        return usable() ? checked(vknn_get(net_, output.c_str(), data, bytes)) : VKNN_ERROR_ARGUMENT;
    }
    /* The port's own memory, until the net is gone; not to be touched while a run is under way. */
    template <class T> Span<T> borrow(vknn_direction direction, const std::string &name) {
        void *data = nullptr;
        std::size_t bytes = 0;
        if (typed<T>(direction, name) != VKNN_OK ||
            checked(vknn_borrow(net_, direction, name.c_str(), &data, &bytes)) != VKNN_OK)
            return Span<T>();
        return Span<T>(static_cast<T *>(data), bytes / sizeof(T));
    }

    vknn_status run() { return usable() ? checked(vknn_run(net_)) : VKNN_ERROR_ARGUMENT; }
    vknn_status submit() { return usable() ? checked(vknn_submit(net_)) : VKNN_ERROR_ARGUMENT; }
    vknn_status wait() { return usable() ? checked(vknn_wait(net_)) : VKNN_ERROR_ARGUMENT; }
    /* State takes its first values again. */
    vknn_status reset() { return usable() ? checked(vknn_reset(net_)) : VKNN_ERROR_ARGUMENT; }
    /* From any thread, while the net lives: wait() and run() fail soon, with VKNN_ERROR_CANCELLED. */
    void cancel() noexcept {
        if (net_)
            vknn_cancel(net_);
    }

    /* Runs the bundle's example, in place of inputs and outputs. VKNN_ERROR_DIFFERS is an answer, not
     * thrown. `text`: a line an output. */
    vknn_status test(std::string *text = nullptr) {
        if (!usable())
            return VKNN_ERROR_ARGUMENT;
        char *lines = nullptr;
        const vknn_status status = vknn_test(net_, text ? &lines : nullptr);
        if (text)
            *text = taken(lines);
        return status == VKNN_ERROR_DIFFERS ? status : checked(status);
    }
    /* The same as JSON, with device, driver and plan: docs/files.md. That the example differs, or cannot
     * run, stands in it and is not thrown; only that there is no memory for it is. */
    std::string test_json() {
        char *json = nullptr;
        if (!usable())
            return std::string();
        const vknn_status status = vknn_test_json(net_, &json);
        const std::string text = taken(json);
        return !text.empty() || checked(status) == VKNN_OK ? text : std::string();
    }
    /* Times of so many runs, step by step, as JSON for `vknn report`. */
    std::string profile(std::uint32_t runs = 1) {
        char *json = nullptr;
        if (!usable())
            return std::string();
        const vknn_status status = vknn_profile(net_, runs, &json);
        const std::string text = taken(json);
        return checked(status) == VKNN_OK ? text : std::string();
    }

private:
    std::shared_ptr<detail::Owner> owner_; /* before the net, so that it goes behind it */
    vknn_net *net_;

    void close() noexcept {
        if (net_)
            vknn_net_close(net_);
        net_ = nullptr;
    }
    bool begins(const Context &context) {
        vknn_message why = vknn_message();
        if (!context.ok()) { /* where nothing throws the net says what the context said */
            const std::string said = context.message();
            (said.empty() ? "the context was moved from" : said).copy(why.text, sizeof why.text - 1);
            opened(context.status(), why);
            return false;
        }
        owner_ = context.owner_;
        return true;
    }
    void open(const Context &context, const std::string &path, const vknn_net_options &options) {
        vknn_message why = vknn_message();
        if (begins(context))
            opened(vknn_net_open_file(owner_->context, path.c_str(), &options, &net_, &why), why);
    }
    bool usable() {
        return net_ || fail(VKNN_ERROR_ARGUMENT, "this net is not open, or was moved from") == VKNN_OK;
    }
    vknn_status checked(vknn_status status) {
        return status == VKNN_OK ? status : fail(status, vknn_net_message(net_));
    }
    vknn_status find(vknn_direction direction, const std::string &name, vknn_port *port) {
        return usable() ? checked(vknn_find(net_, direction, name.c_str(), port)) : VKNN_ERROR_ARGUMENT;
    }
    template <class T> vknn_status typed(vknn_direction direction, const std::string &name) {
        vknn_port port = vknn_port();
        const vknn_status status = find(direction, name, &port);
        if (status != VKNN_OK || detail::is_type<T>(port.type))
            return status;
        return fail(VKNN_ERROR_ARGUMENT, "'" + name + "' is " + detail::type_name(port.type) +
                                             ", other elements were given: use its type, or the bytes");
    }
    vknn_status size_of(const std::string &output, std::size_t *bytes) {
        vknn_port port = vknn_port();
        std::uint64_t dims[VKNN_MOST_AXES] = {0};
        vknn_status status = find(VKNN_OUTPUT, output, &port);
        *bytes = port.bytes;
        if (status != VKNN_OK || !port.open)
            return status;
        status = checked(vknn_shape(net_, output.c_str(), dims));
        *bytes = detail::type_size(port.type);
        for (std::uint32_t axis = 0; axis < port.rank; ++axis)
            *bytes *= static_cast<std::size_t>(dims[axis]); /* no more than port.bytes */
        return status;
    }
    std::vector<vknn_port> ports(vknn_direction direction) {
        std::vector<vknn_port> found;
        const std::uint32_t count = usable() ? vknn_ports(net_, direction) : 0;
        for (std::uint32_t index = 0; index < count; ++index) {
            vknn_port port = vknn_port();
            if (checked(vknn_describe(net_, direction, index, &port)) != VKNN_OK)
                return std::vector<vknn_port>();
            found.push_back(port);
        }
        return found;
    }
    std::string taken(char *text) {
        const std::string copy(text ? text : "");
        if (text)
            vknn_free(&owner_->options, text);
        return copy;
    }
};

/* Devices, a line each. Empty on failure where nothing throws. */
inline std::string devices() {
    char *text = nullptr;
    vknn_message why = vknn_message();
    const vknn_status status = vknn_devices(nullptr, &text, &why);
    const std::string lines(text ? text : "");
    if (text)
        vknn_free(nullptr, text);
#ifndef VKNN_NO_EXCEPTIONS
    if (status != VKNN_OK)
        throw Error(status, why.text);
#endif
    return status == VKNN_OK ? lines : std::string();
}

} // namespace vknn
#endif

/* Uses vknn::Net as an app does: runs a bundle on an input's bytes, writes the output's, and says
 * what every kind of misuse gives. Compiled with exceptions and without. */
#include "vknn_run.hpp"

#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

static_assert(!std::is_copy_constructible<vknn::Net>::value, "a net is not copied");
static_assert(std::is_nothrow_move_constructible<vknn::Net>::value, "a net moves");
static_assert(!std::is_copy_constructible<vknn::Context>::value, "a context is not copied");

/* The line of a call that must fail. */
#ifdef VKNN_NO_EXCEPTIONS
#define FAILS(net, call) (std::cout << vknn_status_name(call) << ": " << (net).message() << "\n")
#else
#define FAILS(net, call)                                                                                  \
    do {                                                                                                  \
        try {                                                                                             \
            (void)(call);                                                                                 \
            std::cout << #call << " did not throw\n";                                                     \
        } catch (const vknn::Error &error) {                                                              \
            std::cout << vknn_status_name(error.status()) << ": " << error.what() << "\n";                \
        }                                                                                                 \
    } while (0)
#endif

static std::vector<char> bytes_of(const char *path)
{
    std::ifstream file(path, std::ios::binary);
    return std::vector<char>(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

static vknn::Net opened(const char *path)
{
    vknn::Context context; /* ends before the net, which keeps it alive */
    return vknn::Net(context, path);
}

static vknn_status missing()
{
    vknn::Net net("no such file.vkb");
    std::cout << (net.ok() ? "open\n" : net.message() + "\n");
    return net.status();
}

int main(int count, char **arguments)
{
    if (count != 4)
        return 2;
    vknn::Net moved = opened(arguments[1]), net(std::move(moved));
    const std::vector<char> raw = bytes_of(arguments[2]);
    std::vector<float> data(raw.size() / sizeof(float)), scores;
    std::copy(raw.begin(), raw.end(), reinterpret_cast<char *>(data.data()));
    for (const vknn_port &port : net.inputs())
        std::cout << "input " << port.name << " " << port.rank << " " << port.bytes << "\n";
    for (const vknn_port &port : net.outputs())
        std::cout << "output " << port.name << " " << net.shape(port.name).size() << "\n";

    net.set("data", data);
    net.run();
    net.get("out", scores);
    std::ofstream file(arguments[3], std::ios::binary);
    file.write(reinterpret_cast<const char *>(scores.data()), std::streamsize(scores.size() * sizeof(float)));

    /* The other ways in and out give the same. */
    std::array<float, 5> array;
    float plain[5];
    const vknn::Span<const float> span(data.data(), data.size());
    const vknn::Span<float> own = net.borrow<float>(VKNN_INPUT, "data");
    std::copy(span.begin(), span.end(), own.begin());
    net.submit();
    net.wait();
    net.get("out", array);
    net.set("data", span);
    net.set("data", data.data(), data.size());
    net.reset();
    net.run();
    net.get("out", plain);
    std::cout << "same " << std::equal(scores.begin(), scores.end(), array.begin())
              << std::equal(scores.begin(), scores.end(), plain) << (net.get<float>("out") == scores)
              << (net.memory() > 0) << (net.profile(2).find('{') == 0) << !vknn::devices().empty() << "\n";
    std::string text;
    std::cout << "test " << vknn_status_name(net.test(&text)) << "\n" << text;
    std::ofstream(arguments[3] + std::string(".json"), std::ios::binary) << net.test_json();

    /* A net of memory in the same context as another. */
    const std::vector<char> bundle = bytes_of(arguments[1]);
    vknn::Context context;
    vknn::Net first(context, bundle.data(), bundle.size()), second(context, arguments[1]);
    second = std::move(first);
    second.set("data", data);
    second.run();
    std::cout << "second " << (second.get<float>("out") == scores) << !context.device().empty() << "\n";

    std::vector<std::uint8_t> wrong_type(data.size() * sizeof(float));
    FAILS(net, net.set("data", wrong_type));
    FAILS(net, net.set("data", data.data(), data.size() - 1));
    FAILS(net, net.get("out", scores.data(), scores.size() + 1));
    FAILS(net, net.set("nothing", data));
    FAILS(moved, (moved.test_json(), VKNN_ERROR_ARGUMENT)); /* first: the next leaves its sentence */
    FAILS(moved, moved.run());
    FAILS(net, missing());
    return 0;
}

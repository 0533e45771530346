// swift-tools-version:6.0
// Built by Swift 6.0.3 on Linux, x86-64; not with Apple's tools. See docs/phones.md.
//
// The C target takes Vulkan's headers from the compiler's search path (CPATH, or the VULKAN_SDK's
// include folder). On iOS define VKNN_STATIC_VULKAN and link MoltenVK.xcframework into the app.
import PackageDescription

let package = Package(
    name: "Vknn",
    platforms: [.macOS(.v11), .iOS(.v14)],
    products: [.library(name: "Vknn", targets: ["Vknn"])],
    targets: [
        .target(
            name: "CVknn",
            path: ".",
            exclude: ["android", "swift/Vknn", "CMakeLists.txt", "main.c"],
            sources: ["vknn_run.c"],
            publicHeadersPath: "swift/CVknn",
            cSettings: [.define("VKNN_STATIC_VULKAN", .when(platforms: [.iOS]))]
        ),
        .target(name: "Vknn", dependencies: ["CVknn"], path: "swift/Vknn"),
    ],
    cLanguageStandard: .c99
)

// swift-tools-version:6.0
// A program over the package in runner/, which test_swift.py puts beside this one.
import PackageDescription

let package = Package(
    name: "Use",
    dependencies: [.package(path: "../runner")],
    targets: [
        .executableTarget(
            name: "Use", dependencies: [.product(name: "Vknn", package: "runner")], path: ".", sources: ["main.swift"])
    ]
)

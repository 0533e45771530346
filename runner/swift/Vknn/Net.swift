// Built and run with Swift 6.0.3 on Linux, x86-64; not with Apple's tools. See docs/phones.md.

@_exported import CVknn  // VKNN_INPUT, VKNN_FLOAT32, VKNN_ERROR_TIMEOUT, which its callers name

#if canImport(Foundation)
import Foundation
#endif

/// What the runner refuses or cannot do: a status of vknn_run.h, and its sentence.
public struct VknnError: Error, CustomStringConvertible {
    public let status: vknn_status
    public let description: String

    /// The status in words, as vknn_status_name has it.
    public var statusName: String { String(cString: vknn_status_name(status)) }
}

#if canImport(Foundation)
extension VknnError: LocalizedError {
    public var errorDescription: String? { description }
}
#endif

/// Types of an output's and input's elements that Swift has. Float16 has no type on every platform:
/// take its bits as `UInt16`.
public protocol VknnElement: BitwiseCopyable {
    static func matches(_ type: vknn_type) -> Bool
}

extension Float: VknnElement {
    public static func matches(_ type: vknn_type) -> Bool { type == VKNN_FLOAT32 }
}
extension Double: VknnElement {
    public static func matches(_ type: vknn_type) -> Bool { type == VKNN_FLOAT64 }
}
extension Int8: VknnElement {
    public static func matches(_ type: vknn_type) -> Bool { type == VKNN_INT8 }
}
extension UInt8: VknnElement {
    public static func matches(_ type: vknn_type) -> Bool { type == VKNN_UINT8 || type == VKNN_BOOL }
}
extension Int16: VknnElement {
    public static func matches(_ type: vknn_type) -> Bool { type == VKNN_INT16 }
}
extension UInt16: VknnElement {
    public static func matches(_ type: vknn_type) -> Bool { type == VKNN_UINT16 || type == VKNN_FLOAT16 }
}
extension Int32: VknnElement {
    public static func matches(_ type: vknn_type) -> Bool { type == VKNN_INT32 }
}
extension UInt32: VknnElement {
    public static func matches(_ type: vknn_type) -> Bool { type == VKNN_UINT32 }
}
extension Int64: VknnElement {
    public static func matches(_ type: vknn_type) -> Bool { type == VKNN_INT64 }
}
extension UInt64: VknnElement {
    public static func matches(_ type: vknn_type) -> Bool { type == VKNN_UINT64 }
}

/// A device, its compiled pipelines and weights, which nets of any threads share. Nets keep it alive.
public final class Context: @unchecked Sendable {  // the handle has locks of its own
    fileprivate let handle: OpaquePointer
    private let listener: Listener?  // which the handle's log calls as long as it lives

    /// - Parameters:
    ///   - device: its number, part of its name, or its UUID in hex; nil: the best one.
    ///   - cache: folder for the driver's compiled pipelines; nil: none is kept.
    ///   - threads: that make pipelines; 0: up to four.
    ///   - robust: shaders stay within whole arenas and blocks of weights.
    ///   - log: is told, in any thread, what is used and what went wrong; it must not use the runner.
    public init(
        device: String? = nil, cache: String? = nil, threads: UInt32 = 0, robust: Bool = false,
        log: (@Sendable (String) -> Void)? = nil
    ) throws {
        let listener = log.map { Listener($0) }
        defer { withExtendedLifetime(listener) {} }  // also where nothing can be made, which the log is told
        handle = try withText(device) { device in
            try withText(cache) { cache in
                var options = vknn_context_options()
                options.device = device
                options.cache = cache
                options.threads = threads
                options.robust = robust ? 1 : 0
                if let listener {
                    options.user = Unmanaged.passUnretained(listener).toOpaque()
                    options.log = { user, line in
                        guard let user, let line else { return }
                        Unmanaged<Listener>.fromOpaque(user).takeUnretainedValue().say(String(cString: line))
                    }
                }
                return try created(options)
            }
        }
        self.listener = listener
    }

    /// With C's own options: an app's Vulkan, an allocator. What they point to has to stay as long as
    /// vknn_run.h says.
    public init(options: vknn_context_options) throws {
        listener = nil
        handle = try created(options)
    }

    deinit { vknn_context_destroy(handle) }

    /// Name of the device.
    public var device: String { String(cString: vknn_context_device(handle)) }
}

private final class Listener {
    let say: @Sendable (String) -> Void
    init(_ say: @escaping @Sendable (String) -> Void) { self.say = say }
}

private func created(_ given: vknn_context_options) throws -> OpaquePointer {
    var options = given
    var made: OpaquePointer?
    var why = vknn_message()
    let status = vknn_context_create(&options, &made, &why)
    guard status == VKNN_OK, let made else { throw VknnError(status: status, description: text(of: why)) }
    return made
}

/// A bundle (.vkb file that `vknn export` writes), ready to run. Used by one thread at a time; only
/// a `canceller` may be used in another.
///
///     let net = try Net(file: path)
///     try net.set("data", pixels)              // [Float]
///     try net.run()
///     let scores: [Float] = try net.get("prob")
public final class Net {
    private let context: Context
    private let handle: OpaquePointer

    /// An input or output.
    public struct Port: Sendable {
        public let name: String
        public let type: vknn_type
        public let shape: [Int]
        public let bytes: Int
        /// "NHWC"; empty where the format has none.
        public let layout: String
        /// "RGB": takes pictures; else empty.
        public let picture: String
        /// Elements stand for scale * (stored - zeroPoint); nil where they stand for themselves.
        public let quantization: (scale: Float, zeroPoint: Int)?
        /// Names of classes.
        public let labels: [String]
        /// Whether `shape(of:)` says its sizes behind each run; `shape` is then the most.
        public let isOpen: Bool
    }

    /// A file.
    ///
    /// - Parameters:
    ///   - shapes: one of the bundle's, "data=3,224,224"; nil: its first.
    ///   - target: one of the bundle's; nil: the first that suits the device.
    ///   - sha256: 32 bytes; nothing of another bundle is used.
    ///   - timeLimit: seconds of a run; 0: 30.
    ///   - staged: through staging memory even where the device shares the host's.
    ///   - memoryLimit: bytes of device memory; 0: what the device says is free.
    public init(
        file: String, context: Context? = nil, shapes: String? = nil, target: String? = nil,
        sha256: [UInt8]? = nil, timeLimit: Double = 0, staged: Bool = false, memoryLimit: UInt64 = 0
    ) throws {
        let context = try context ?? Context()
        let file = try whole(file)
        handle = try opened(shapes, target, sha256, timeLimit, staged, memoryLimit) { options, made, why in
            vknn_net_open_file(context.handle, file, options, made, why)
        }
        self.context = context
    }

    /// A bundle in memory, which is copied. Parameters as for files.
    public init(
        bytes: [UInt8], context: Context? = nil, shapes: String? = nil, target: String? = nil,
        sha256: [UInt8]? = nil, timeLimit: Double = 0, staged: Bool = false, memoryLimit: UInt64 = 0
    ) throws {
        let context = try context ?? Context()
        handle = try opened(shapes, target, sha256, timeLimit, staged, memoryLimit) { options, made, why in
            vknn_net_open_memory(context.handle, bytes, bytes.count, options, made, why)
        }
        self.context = context
    }

    /// A bundle in memory that has to stay as it is until the net is gone, as mapped files do. Swift lets go of
    /// a net behind its last use.
    public init(
        keeping bytes: UnsafeRawBufferPointer, context: Context? = nil, shapes: String? = nil,
        target: String? = nil, sha256: [UInt8]? = nil, timeLimit: Double = 0, staged: Bool = false,
        memoryLimit: UInt64 = 0
    ) throws {
        let context = try context ?? Context()
        handle = try opened(shapes, target, sha256, timeLimit, staged, memoryLimit) { options, made, why in
            options.pointee.keeps_memory = 1
            return vknn_net_open_memory(context.handle, bytes.baseAddress, bytes.count, options, made, why)
        }
        self.context = context
    }

    deinit { vknn_net_close(handle) }

    /// Bytes of device memory, weights included.
    public var memory: UInt64 { vknn_net_memory(handle) }

    public var inputs: [Port] { ports(VKNN_INPUT) }
    public var outputs: [Port] { ports(VKNN_OUTPUT) }
    public func input(_ name: String) throws -> Port { described(try find(VKNN_INPUT, name)) }
    public func output(_ name: String) throws -> Port { described(try find(VKNN_OUTPUT, name)) }

    /// Sizes of an output: behind a run those that it had, where they depend on data.
    public func shape(of output: String) throws -> [Int] {
        let port = try find(VKNN_OUTPUT, output)
        guard port.open != 0 else { return sizes(port.dims, port.rank) }
        var found = vknn_port().dims
        let status = withUnsafeMutableBytes(of: &found) {
            vknn_shape(handle, output, $0.bindMemory(to: UInt64.self).baseAddress)
        }
        try check(status)
        return sizes(found, port.rank)
    }

    /// Gives an input its elements, all of them. The type must be the port's.
    public func set<Element: VknnElement>(_ input: String, _ data: [Element]) throws {
        try checkType(try find(VKNN_INPUT, input), Element.self)
        try data.withUnsafeBytes { try setBytes(input, $0) }
    }

    /// Whatever the type is: for pictures and memory of other frameworks.
    public func setBytes(_ input: String, _ data: UnsafeRawBufferPointer) throws {
        try check(vknn_set(handle, whole(input), data.baseAddress, data.count))
    }

    /// An output's elements. The type must be the port's.
    public func get<Element: VknnElement>(
        _ output: String, as type: Element.Type = Element.self
    ) throws -> [Element] {
        try checkType(try find(VKNN_OUTPUT, output), Element.self)
        let count = try shape(of: output).reduce(1, *)
        return try [Element](unsafeUninitializedCapacity: count) { buffer, initialized in
            let bytes = UnsafeMutableRawBufferPointer(
                start: buffer.baseAddress, count: count * MemoryLayout<Element>.stride)
            try getBytes(output, into: bytes)
            initialized = count
        }
    }

    public func getBytes(_ output: String, into data: UnsafeMutableRawBufferPointer) throws {
        try check(vknn_get(handle, whole(output), data.baseAddress, data.count))
    }

    /// The elements of an input, or of an output, themselves, in place of copies, until the net is gone, which
    /// Swift lets go of behind its last use: `withExtendedLifetime(net) { ... }`. Not to be touched while a run
    /// is under way. The type must be the port's.
    public func borrow<Element: VknnElement>(
        _ direction: vknn_direction, _ name: String, as type: Element.Type = Element.self
    ) throws -> UnsafeMutableBufferPointer<Element> {
        try checkType(try find(direction, name), Element.self)
        return try borrowBytes(direction, name).bindMemory(to: Element.self)
    }

    /// Whatever the type is.
    public func borrowBytes(
        _ direction: vknn_direction, _ name: String
    ) throws -> UnsafeMutableRawBufferPointer {
        var data: UnsafeMutableRawPointer?
        var bytes = 0
        try check(vknn_borrow(handle, direction, whole(name), &data, &bytes))
        return UnsafeMutableRawBufferPointer(start: data, count: data == nil ? 0 : bytes)
    }

    /// Runs from inputs to outputs, and waits.
    public func run() throws { try check(vknn_run(handle)) }
    /// Begins a run; `wait` waits for it, no longer than the time limit.
    public func submit() throws { try check(vknn_submit(handle)) }
    public func wait() throws { try check(vknn_wait(handle)) }
    /// Ends the waiting for a run that has begun. That is in another thread: see `canceller`.
    public func cancel() { vknn_cancel(handle) }
    /// What ends it from any thread.
    public var canceller: Canceller { Canceller(self) }
    /// State takes its first values again.
    public func reset() throws { try check(vknn_reset(handle)) }

    /// Runs the bundle's example, in place of inputs and outputs: whether the device computes what the
    /// bundle says, and a line an output, how far it is off.
    public func test() throws -> (isRight: Bool, text: String) {
        var lines: UnsafeMutablePointer<CChar>?
        let status = vknn_test(handle, &lines)
        let text = taken(lines)
        if status != VKNN_ERROR_DIFFERS { try check(status) }
        return (status == VKNN_OK, text)
    }

    /// The same as JSON, with device, driver and plan: docs/files.md. That the example differs, or cannot
    /// run, stands in it and is not thrown; only that there is no memory for it is.
    public func testJson() throws -> String {
        var json: UnsafeMutablePointer<CChar>?
        let status = vknn_test_json(handle, &json)
        if json == nil { try check(status) }
        return taken(json)
    }

    /// Times of so many runs, step by step, as JSON for `vknn report`.
    public func profile(runs: UInt32 = 1) throws -> String {
        var json: UnsafeMutablePointer<CChar>?
        let status = vknn_profile(handle, runs, &json)
        let text = taken(json)
        try check(status)
        return text
    }

    private func ports(_ direction: vknn_direction) -> [Port] {
        (0..<vknn_ports(handle, direction)).compactMap { index in
            var port = vknn_port()
            guard vknn_describe(handle, direction, index, &port) == VKNN_OK else { return nil }
            return described(port)
        }
    }

    private func described(_ given: vknn_port) -> Port {
        var port = given
        let labels = (0..<port.labels).map { label in
            vknn_label(handle, &port, label).map { String(cString: $0) } ?? ""
        }
        return Port(
            name: String(cString: port.name), type: port.type, shape: sizes(port.dims, port.rank),
            bytes: port.bytes, layout: String(cString: port.layout), picture: String(cString: port.picture),
            quantization: port.quantized == 0 ? nil : (port.scale, Int(port.zero_point)), labels: labels,
            isOpen: port.open != 0)
    }

    private func find(_ direction: vknn_direction, _ name: String) throws -> vknn_port {
        var port = vknn_port()
        try check(vknn_find(handle, direction, whole(name), &port))
        return port
    }

    private func checkType<Element: VknnElement>(_ port: vknn_port, _ type: Element.Type) throws {
        guard Element.matches(port.type) else {
            let text = "'\(String(cString: port.name))' has elements of another type than \(type)"
            throw VknnError(status: VKNN_ERROR_ARGUMENT, description: text)
        }
    }

    private func check(_ status: vknn_status) throws {
        guard status == VKNN_OK else {
            throw VknnError(status: status, description: String(cString: vknn_net_message(handle)))
        }
    }

    private func taken(_ text: UnsafeMutablePointer<CChar>?) -> String {
        guard let text else { return "" }
        defer { vknn_free(nil, text) }
        return String(cString: text)
    }
}

/// Ends the waiting for a net's run, from any thread. It keeps the net.
public final class Canceller: @unchecked Sendable {  // of the net it calls nothing else
    private let net: Net
    fileprivate init(_ net: Net) { self.net = net }
    public func cancel() { net.cancel() }
}

/// Version of the runner's interface, VKNN_RUN_VERSION of vknn_run.h.
public var interfaceVersion: UInt32 { vknn_run_version() }

/// Devices, a line each.
public func devices() throws -> String {
    var lines: UnsafeMutablePointer<CChar>?
    var why = vknn_message()
    let status = vknn_devices(nil, &lines, &why)
    guard status == VKNN_OK, let lines else { throw VknnError(status: status, description: text(of: why)) }
    defer { vknn_free(nil, lines) }
    return String(cString: lines)
}

private func text(of message: vknn_message) -> String {
    withUnsafeBytes(of: message.text) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
}

private func sizes<Tuple>(_ dims: Tuple, _ rank: UInt32) -> [Int] {
    withUnsafeBytes(of: dims) { $0.bindMemory(to: UInt64.self).prefix(Int(rank)).map { Int($0) } }
}

/// The text, of which C takes what is in front of a 0.
private func whole(_ text: String) throws -> String {
    guard !text.utf8.contains(0) else {
        throw VknnError(status: VKNN_ERROR_ARGUMENT, description: "a text has a 0 in it")
    }
    return text
}

private func withText<Result>(
    _ text: String?, _ body: (UnsafePointer<CChar>?) throws -> Result
) throws -> Result {
    if let text { return try whole(text).withCString(body) }
    return try body(nil)
}

private func withBytes<Result>(
    _ bytes: [UInt8]?, _ body: (UnsafePointer<UInt8>?) throws -> Result
) rethrows -> Result {
    if let bytes { return try bytes.withUnsafeBufferPointer { try body($0.baseAddress) } }
    return try body(nil)
}

/// A net that `opening` opens with the options, whose texts live as long as it takes.
private func opened(
    _ shapes: String?, _ target: String?, _ sha256: [UInt8]?, _ timeLimit: Double, _ staged: Bool,
    _ memoryLimit: UInt64,
    _ opening: (
        UnsafeMutablePointer<vknn_net_options>, UnsafeMutablePointer<OpaquePointer?>,
        UnsafeMutablePointer<vknn_message>
    ) -> vknn_status
) throws -> OpaquePointer {
    if let sha256, sha256.count != 32 {
        let text = "a SHA-256 has 32 bytes, not \(sha256.count)"
        throw VknnError(status: VKNN_ERROR_ARGUMENT, description: text)
    }
    var made: OpaquePointer?
    var why = vknn_message()
    let status = try withText(shapes) { shapes in
        try withText(target) { target in
            withBytes(sha256) { sha256 in
                var options = vknn_net_options()
                options.shapes = shapes
                options.target = target
                options.sha256 = sha256
                options.time_limit = timeLimit
                options.staged = staged ? 1 : 0
                options.memory_limit = memoryLimit
                return opening(&options, &made, &why)
            }
        }
    }
    guard status == VKNN_OK, let made else { throw VknnError(status: status, description: text(of: why)) }
    return made
}

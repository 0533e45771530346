// Uses the package Vknn as an app does: `Use run BUNDLE FOLDER RUNS` gives inputs the bytes of FOLDER/NAME, and
// writes those of outputs; `Use all BUNDLE FOLDER` calls everything there is, and says what misuse gives.
// BUNDLE of `all` has an input "data" of float32 and an output "out" of five.
import Foundation
import Vknn

let arguments = CommandLine.arguments
let path = arguments[2], folder = URL(fileURLWithPath: arguments[3])

func bytes(_ name: String) throws -> [UInt8] {
    try [UInt8](Data(contentsOf: folder.appendingPathComponent(name)))
}

/// What a call that must fail says.
func fails(_ what: String, _ call: () throws -> Void) {
    do {
        try call()
        print("\(what): did not throw")
    } catch let error as VknnError {
        print("\(what): \(error.status.rawValue) \(error.statusName): \(error)")
    } catch {
        print("\(what): another error: \(error)")
    }
}

func show(_ direction: String, _ port: Net.Port) {
    let quantization = port.quantization.map { "\($0.scale) \($0.zeroPoint)" } ?? "none"
    print(
        direction, port.name, port.type.rawValue, port.shape, port.bytes, "layout", port.layout, "picture",
        port.picture, "quantization", quantization, "labels", port.labels, "open", port.isOpen)
}

func runs(_ count: Int) throws {
    let net = try Net(file: path, timeLimit: 600)
    net.inputs.forEach { show("input", $0) }
    net.outputs.forEach { show("output", $0) }
    for port in net.inputs {
        try bytes(port.name).withUnsafeBytes { try net.setBytes(port.name, $0) }
    }
    for _ in 0..<count { try net.run() }
    for port in net.outputs {
        let elements = try net.shape(of: port.name).reduce(1, *)
        let most = port.shape.reduce(1, *)
        var found = [UInt8](repeating: 7, count: port.bytes / most * elements)
        try found.withUnsafeMutableBytes { try net.getBytes(port.name, into: $0) }
        try Data(found).write(to: folder.appendingPathComponent("\(port.name).swift"))
        print("shape", port.name, try net.shape(of: port.name))
    }
}

/// What was said, in any thread.
final class Said: @unchecked Sendable {
    private let lock = NSLock()
    private var lines: [String] = []
    func append(_ line: String) { lock.withLock { lines.append(line) } }
    var text: String { lock.withLock { lines.joined(separator: "\n") } }
}

func answer(_ net: Net, _ data: [Float]) throws -> [Float] {
    try net.set("data", data)
    try net.run()
    return try net.get("out")
}

func waysInAndOut(_ data: [Float]) throws -> [Float] {
    let net = try Net(file: path)
    let scores = try answer(net, data)
    try Data(scores.withUnsafeBytes { [UInt8]($0) }).write(to: folder.appendingPathComponent("out.swift"))

    let input = try net.borrow(VKNN_INPUT, "data", as: Float.self)
    input.update(repeating: 0)
    try net.submit()
    try net.wait()
    let output: UnsafeMutableBufferPointer<Float> = try net.borrow(VKNN_OUTPUT, "out")
    print("zeros", Array(output) == scores)
    _ = input.update(from: data)
    try net.submit()
    try net.wait()
    print("borrowed", Array(output) == scores, try net.borrowBytes(VKNN_OUTPUT, "out").count)
    withExtendedLifetime(net) {}

    try net.reset()
    let raw = try net.get("out", as: Float.self)
    print("same", raw == scores, net.memory > 0)
    print("input", try net.input("data").shape, "output", try net.output("out").shape)
    let test = try net.test()
    print("test", test.isRight, test.text.hasPrefix("out: "))
    try Data(net.testJson().utf8).write(to: folder.appendingPathComponent("test.json"))
    try Data(net.profile(runs: 2).utf8).write(to: folder.appendingPathComponent("profile.json"))
    print("once", try net.profile().contains("\"runs\": 1"))
    return scores
}

func contexts(_ data: [Float], _ scores: [Float]) throws {
    let said = Said()
    let cache = folder.appendingPathComponent("cäche").path
    let context = try Context(cache: cache, threads: 2, robust: true) { said.append($0) }
    let file = try [UInt8](Data(contentsOf: URL(fileURLWithPath: path)))
    let copied = try Net(bytes: file, context: context, staged: true, memoryLimit: 1 << 30)
    let (shapes, target) = (arguments[4], arguments[5])
    let pinned = try Net(
        file: path, context: context, shapes: shapes, target: target, sha256: bytes("sha256"), timeLimit: 60)
    let kept = try file.withUnsafeBytes { memory in
        let net = try Net(keeping: memory, context: context)
        return try answer(net, data)
    }
    print("nets", try answer(copied, data) == scores, try answer(pinned, data) == scores, kept == scores)
    print("log", said.text.contains("memory: "), said.text.contains(target))
    print("device", try devices().contains(context.device), interfaceVersion)
    let named = try Net(file: path, context: Context(device: context.device))
    let own = try Net(file: path, context: Context(options: .init()))
    print("more nets", try answer(named, data) == scores, try answer(own, data) == scores)
}

/// Nets of one context in threads of their own, and a run that another thread gives up.
func threads(_ data: [Float], _ scores: [Float]) throws {
    let context = try Context(), found = Said()
    DispatchQueue.concurrentPerform(iterations: 4) { _ in
        for _ in 0..<3 {
            let right = (try? answer(Net(file: path, context: context), data)) == scores
            found.append(String(right))
        }
    }
    print("threads", found.text.components(separatedBy: "\n").filter { $0 == "true" }.count)

    let net = try Net(file: path, context: context)
    let canceller = net.canceller
    try net.set("data", data)
    net.cancel()  // of no run: the next one goes on
    try net.run()
    try net.submit()
    let cancelled = Thread { canceller.cancel() }
    cancelled.start()
    do {
        try net.wait()
        print("cancel: ended or cancelled")
    } catch let error as VknnError where error.status == VKNN_ERROR_CANCELLED {
        print("cancel: ended or cancelled")
    }
    while !cancelled.isFinished { Thread.sleep(forTimeInterval: 0.001) }
    try net.wait()  // for the device works on behind a wait that was given up
    print("again", try answer(net, data) == scores)
}

func misuse(_ data: [Float]) throws {
    let net = try Net(file: path)
    fails("type") { try net.set("data", [UInt8](repeating: 0, count: 4 * data.count)) }
    fails("type of output") { _ = try net.get("out", as: Int32.self) }
    fails("type of memory") { _ = try net.borrow(VKNN_INPUT, "data", as: Double.self) }
    fails("size") { try net.set("data", [Float](data.dropLast())) }
    fails("nothing") { try net.set("data", [Float]()) }
    fails("room") {
        var few = [UInt8](repeating: 0, count: 19)
        try few.withUnsafeMutableBytes { try net.getBytes("out", into: $0) }
    }
    fails("name") { try net.set("nothing", data) }
    fails("name of output") { _ = try net.output("data") }
    fails("name with 0") { try net.set("data\0more", data) }
    fails("shape") { _ = try net.shape(of: "nothing") }
    fails("runs") { _ = try net.profile(runs: 0) }
    fails("missing") { _ = try Net(file: "no such 😀.vkb") }
    fails("file with 0") { _ = try Net(file: path + "\0more") }
    fails("no bundle") { _ = try Net(bytes: [1, 2, 3]) }
    fails("no bytes") { _ = try Net(bytes: []) }
    fails("no memory") { _ = try Net(keeping: UnsafeRawBufferPointer(start: nil, count: 0)) }
    fails("short hash") { _ = try Net(file: path, sha256: [UInt8](repeating: 0, count: 31)) }
    fails("hash") { _ = try Net(file: path, sha256: [UInt8](repeating: 0, count: 32)) }
    fails("shapes") { _ = try Net(file: path, shapes: "data=1,1,1") }
    fails("target") { _ = try Net(file: path, target: "né") }
    fails("limit") { _ = try Net(file: path, memoryLimit: 1) }
    fails("device") { _ = try Context(device: "no device") { _ in } }
}

if arguments[1] == "run" {
    try runs(Int(arguments[4])!)
} else {
    let data = try bytes("data").withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
    let scores = try waysInAndOut(data)
    try contexts(data, scores)
    try threads(data, scores)
    try misuse(data)
}

// Built and run with a JDK on Linux only: no Android device has been seen. See docs/phones.md.
package vknn;

import java.io.File;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.Charset;

/**
 * A bundle (.vkb file that {@code vknn export} writes), ready to run on a device with Vulkan 1.1.
 *
 * <pre>{@code
 * try (Net net = Net.open(new File("net.vkb"), null)) {
 *     ByteBuffer pixels = net.input("data").allocate(), scores = net.output("prob").allocate();
 *     pixels.asFloatBuffer().put(...);
 *     net.set("data", pixels);
 *     net.run();
 *     net.get("prob", scores);
 * }
 * }</pre>
 *
 * Buffers are direct ones, in the device's byte order, and their remaining bytes are the port's, no
 * more and no fewer; positions stay as they are. All calls but {@link #cancel} wait for each other.
 * What the runner refuses is thrown as {@link Failure}, with its sentence.
 */
public final class Net implements AutoCloseable {
    static {
        System.loadLibrary("vknn");
    }

    /** Takes what the runner tells of its work, a line a time, from whatever thread makes a call. */
    public interface Log {
        /** Must not call the net. What it throws is printed, and thrown no further. */
        void say(String text);
    }

    /** What to open and where to work. All defaults are good. */
    public static final class Options {
        /** The device's number, part of its name, or its UUID in hex; null: the best one. */
        public String device;
        /** Folder for the driver's compiled pipelines ({@code getCacheDir()}); null: none is kept. */
        public File cache;
        /** Threads that make pipelines; 0: up to four. */
        public int threads;
        /** Whether shaders stay within whole arenas and blocks of weights. */
        public boolean robust;
        /** Is told which device, plan and memory are used, and what went wrong; null: nobody is. */
        public Log log;
        /** An open net, to share its device, pipelines and equal weights; then the fields above are unused. */
        public Net beside;
        /** One of the bundle's sets of shapes, "data=3,224,224"; null: its first. */
        public String shapes;
        /** One of the bundle's targets; null: the first that suits the device. */
        public String target;
        /** SHA-256 of the bundle, 32 bytes, or null: nothing of another one is used. */
        public byte[] sha256;
        /** Seconds that a run may take; 0: 30. */
        public double timeLimit;
        /** Whether all goes through staging memory, even where the device shares the host's. */
        public boolean staged;
        /** Bytes of device memory; 0: what the device says is free. */
        public long memoryLimit;
    }

    /** Types of elements. */
    public enum Type {
        FLOAT32(4), FLOAT16(2), INT8(1), UINT8(1), INT16(2), UINT16(2), INT32(4), UINT32(4), INT64(8),
        UINT64(8), BOOL(1), FLOAT64(8);

        /** Bytes of an element. */
        public final int bytes;

        Type(int bytes) {
            this.bytes = bytes;
        }
    }

    /** An input or output. */
    public static final class Port {
        public final String name;
        public final boolean isInput;
        public final Type type;
        /** Sizes; of an output whose size depends on data: at most. */
        public final long[] dims;
        public final int bytes;
        /** "NHWC"; empty where the format has none. */
        public final String layout;
        /** "RGB": takes pictures; else empty. */
        public final String picture;
        /** Whether elements stand for scale * (stored - zeroPoint). */
        public final boolean isQuantized;
        public final float scale;
        public final int zeroPoint;
        /** How many classes have names, see {@link Net#label}. */
        public final int labels;
        /** Whether {@link Net#shape} says its sizes behind each run. */
        public final boolean isOpen;
        private final int index;

        private Port(boolean isInput, int index, byte[][] texts, long[] numbers, float scale) {
            this.isInput = isInput;
            this.index = index;
            name = text(texts[0]);
            layout = text(texts[1]);
            picture = text(texts[2]);
            if (numbers[0] < 0 || numbers[0] >= Type.values().length) {
                throw new Failure(1, "port '" + name + "' has a type that this class does not know");
            }
            if (numbers[2] < 0 || numbers[2] > Integer.MAX_VALUE) {
                throw new Failure(4, "port '" + name + "' takes more than 2 GiB, which no ByteBuffer holds");
            }
            type = Type.values()[(int) numbers[0]];
            dims = new long[(int) numbers[1]];
            System.arraycopy(numbers, 7, dims, 0, dims.length);
            bytes = (int) numbers[2];
            isQuantized = numbers[3] != 0;
            zeroPoint = (int) numbers[4];
            labels = (int) numbers[5];
            isOpen = numbers[6] != 0;
            this.scale = scale;
        }

        /** A buffer of its size that {@link Net#set} and {@link Net#get} take. */
        public ByteBuffer allocate() {
            return ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
        }
    }

    /** What the runner refuses or cannot do. */
    public static final class Failure extends RuntimeException {
        private static final long serialVersionUID = 1;
        /** A vknn_status of vknn_run.h. */
        public final int status;

        Failure(int status, String message) {
            super(message);
            this.status = status;
        }

        /** The name of the status in words, as vknn_status_name has it. */
        public String statusName() {
            return text(nameOfStatus(status));
        }

        /** Made by the native side: texts cross as UTF-8, which JNI's own strings are not. */
        Failure(int status, byte[] message) {
            this(status, text(message));
        }
    }

    /** What {@link #test} found. */
    public static final class Answer {
        /** Whether the device computes what the bundle says. */
        public final boolean isRight;
        /** A line an output: how far it is off. */
        public final String text;

        private Answer(boolean isRight, String text) {
            this.isRight = isRight;
            this.text = text;
        }
    }

    /** A vknn_context and how many nets use it; the last one ends it. */
    private static final class Context {
        private final long handle;
        private int users;

        Context(Options options) {
            String cache = options.cache == null ? null : options.cache.getPath();
            handle = createContext(bytes(options.device), bytes(cache), options.threads, options.robust,
                    options.log);
        }

        synchronized void enter() {
            users++;
        }

        synchronized void leave() {
            if (--users == 0) {
                destroyContext(handle);
            }
        }
    }

    private static final Charset UTF_8 = Charset.forName("UTF-8");

    private final Object gate = new Object(); // cancel passes it while a run is under way
    private final Context context;
    private final ByteBuffer bundle; // the runner reads it until the net is closed
    private final Port[] inputs;
    private final Port[] outputs;
    private long handle;

    private Net(File file, ByteBuffer bundle, Options given) {
        Options options = given == null ? new Options() : given;
        if (options.sha256 != null && options.sha256.length != 32) {
            throw new IllegalArgumentException("a SHA-256 has 32 bytes, not " + options.sha256.length);
        }
        byte[] shapes = bytes(options.shapes);
        byte[] target = bytes(options.target);
        this.bundle = bundle;
        if (options.beside == null) {
            context = new Context(options);
            context.enter();
        } else {
            synchronized (options.beside) {
                options.beside.opened();
                context = options.beside.context;
                context.enter();
            }
        }
        boolean isOpen = false;
        try {
            byte[] path = file == null ? null : bytes(file.getPath());
            int position = bundle == null ? 0 : bundle.position();
            int size = bundle == null ? 0 : bundle.remaining();
            handle = openNet(context.handle, path, bundle, position, size, shapes, target, options.sha256,
                    options.timeLimit, options.staged, options.memoryLimit);
            inputs = ports(true);
            outputs = ports(false);
            isOpen = true;
        } finally {
            if (!isOpen) {
                release();
            }
        }
    }

    /** Opens a file; {@code options} may be null. */
    public static Net open(File file, Options options) {
        if (file == null) {
            throw new NullPointerException("give a file");
        }
        return new Net(file, null, options);
    }

    /** Opens a bundle in memory, as a mapped asset: a direct buffer, which stays until the net is closed. */
    public static Net open(ByteBuffer bundle, Options options) {
        return new Net(null, direct(bundle, "the bundle"), options);
    }

    /** Devices as a text, a line each. */
    public static String devices() {
        return text(listDevices());
    }

    /** Version of the runner's interface, VKNN_RUN_VERSION of vknn_run.h. */
    public static int version() {
        return interfaceVersion();
    }

    /** Waits for a run that is under way. Closing twice is fine. */
    @Override
    public synchronized void close() {
        if (handle != 0) {
            release();
        }
    }

    private void release() {
        synchronized (gate) {
            if (handle != 0) {
                closeNet(handle);
            }
            handle = 0;
        }
        context.leave();
    }

    /** Name of the device. */
    public synchronized String device() {
        opened();
        return text(deviceName(context.handle));
    }

    /** Bytes of device memory, weights included. */
    public synchronized long memory() {
        return memoryOf(opened());
    }

    public Port[] inputs() {
        return inputs.clone();
    }

    public Port[] outputs() {
        return outputs.clone();
    }

    public Port input(String name) {
        return named(inputs, "input", name);
    }

    public Port output(String name) {
        return named(outputs, "output", name);
    }

    /** Name of a class of an output; null where it has none. */
    public synchronized String label(Port port, int index) {
        return text(labelOf(opened(), port.isInput, port.index, index));
    }

    /** Sizes of an output behind the last run. */
    public synchronized long[] shape(String output) {
        long net = opened();
        Port port = output(output);
        if (!port.isOpen) {
            return port.dims.clone();
        }
        long[] dims = new long[port.dims.length];
        shapeOf(net, bytes(output), dims);
        return dims;
    }

    /** Gives an input its elements. */
    public synchronized void set(String input, ByteBuffer data) {
        long net = opened();
        ordered(input(input), direct(data, "the buffer"));
        write(net, bytes(input), data, data.position(), data.remaining());
    }

    /** Copies an output's elements. */
    public synchronized void get(String output, ByteBuffer data) {
        long net = opened();
        ordered(output(output), direct(data, "the buffer"));
        if (data.isReadOnly()) {
            throw new IllegalArgumentException("the buffer for '" + output + "' is read-only");
        }
        read(net, bytes(output), data, data.position(), data.remaining());
    }

    /**
     * The memory of an input or output itself, in place of copies: what is written there the next run
     * takes, and behind a run an output is there. Not to be touched while one is under way, nor when the
     * net is closed: the memory is then gone, and Java does not see it.
     */
    public synchronized ByteBuffer borrow(Port port) {
        long net = opened();
        if (port == null) {
            throw new NullPointerException("give a port");
        }
        ByteBuffer own = (ByteBuffer) borrowOf(net, port.isInput, bytes(port.name));
        return (own == null ? ByteBuffer.allocateDirect(0) : own).order(ByteOrder.nativeOrder());
    }

    /** Runs from inputs to outputs, and waits. */
    public synchronized void run() {
        runNet(opened());
    }

    /** Begins a run; {@link #await} waits for it. */
    public synchronized void submit() {
        submitNet(opened());
    }

    /** Waits for a run, no longer than the time limit. */
    public synchronized void await() {
        awaitNet(opened());
    }

    /** Ends the waiting for a run, from any thread. */
    public void cancel() {
        synchronized (gate) {
            if (handle != 0) {
                cancelNet(handle);
            }
        }
    }

    /** State takes its first values again. */
    public synchronized void reset() {
        resetNet(opened());
    }

    /** Runs the bundle's example, which takes the place of inputs, outputs and state. */
    public synchronized Answer test() {
        byte[][] lines = new byte[1][];
        boolean isRight = testNet(opened(), lines);
        return new Answer(isRight, text(lines[0]));
    }

    /**
     * The same as JSON, with device, driver and plan: docs/files.md. That the example differs, or cannot
     * run, stands in it and is not thrown; only that there is no memory for it is.
     */
    public synchronized String testJson() {
        return text(testJsonNet(opened()));
    }

    /** Times of so many runs, step by step, as JSON for {@code vknn report}. */
    public synchronized String profile(int runs) {
        if (runs < 1) {
            throw new IllegalArgumentException("a profile takes one run at least, not " + runs);
        }
        return text(profileNet(opened(), runs));
    }

    private long opened() {
        if (handle == 0) {
            throw new IllegalStateException("this net is closed");
        }
        return handle;
    }

    private Port[] ports(boolean isInput) {
        Port[] found = new Port[countPorts(handle, isInput)];
        for (int index = 0; index < found.length; index++) {
            byte[][] texts = new byte[3][];
            long[] numbers = new long[15];
            float scale = describe(handle, isInput, index, texts, numbers);
            found[index] = new Port(isInput, index, texts, numbers, scale);
        }
        return found;
    }

    private static Port named(Port[] ports, String kind, String name) {
        if (name == null) {
            throw new NullPointerException("give the name of an " + kind);
        }
        StringBuilder names = new StringBuilder();
        for (Port port : ports) {
            if (port.name.equals(name)) {
                return port;
            }
            names.append(names.length() == 0 ? "" : ", ").append(port.name);
        }
        throw new IllegalArgumentException("no " + kind + " '" + name + "': there are " + names);
    }

    private static ByteBuffer direct(ByteBuffer buffer, String name) {
        if (buffer == null) {
            throw new NullPointerException(name + " is null");
        }
        if (!buffer.isDirect()) {
            String remedy = "use Port.allocate(), ByteBuffer.allocateDirect, or map a file";
            throw new IllegalArgumentException(name + " is not direct: " + remedy);
        }
        return buffer;
    }

    /** Numbers of several bytes that Java wrote in another order would be nonsense in silence. */
    private static void ordered(Port port, ByteBuffer buffer) {
        if (port.type.bytes > 1 && buffer.order() != ByteOrder.nativeOrder()) {
            String remedy = "use order(ByteOrder.nativeOrder()), or Port.allocate()";
            throw new IllegalArgumentException("the buffer for '" + port.name + "' is " + buffer.order()
                    + ", which the device is not: " + remedy);
        }
    }

    /** UTF-8 with the 0 that ends C's texts. */
    private static byte[] bytes(String text) {
        if (text == null) {
            return null;
        }
        if (text.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("a text has a 0 in it");
        }
        return (text + '\0').getBytes(UTF_8);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, UTF_8);
    }

    /** Called by the native side, from any thread. */
    private static void tell(Log log, byte[] line) {
        log.say(text(line));
    }

    private static native int interfaceVersion();

    private static native byte[] nameOfStatus(int status);

    private static native long createContext(byte[] device, byte[] cache, int threads, boolean robust,
            Log log);

    private static native void destroyContext(long context);

    private static native byte[] deviceName(long context);

    private static native byte[] listDevices();

    private static native long openNet(long context, byte[] path, Buffer bundle, int position, int size,
            byte[] shapes, byte[] target, byte[] sha256, double timeLimit, boolean staged, long memoryLimit);

    private static native void closeNet(long net);

    private static native long memoryOf(long net);

    private static native int countPorts(long net, boolean isInput);

    /**
     * The scale. texts: name, layout, picture; numbers: type, rank, bytes, quantized, zero point, labels,
     * open, dims.
     */
    private static native float describe(long net, boolean isInput, int index, byte[][] texts,
            long[] numbers);

    private static native byte[] labelOf(long net, boolean isInput, int index, int label);

    private static native void shapeOf(long net, byte[] output, long[] dims);

    private static native void write(long net, byte[] input, Buffer data, int position, int size);

    private static native void read(long net, byte[] output, Buffer data, int position, int size);

    private static native Buffer borrowOf(long net, boolean isInput, byte[] name);

    private static native void runNet(long net);

    private static native void submitNet(long net);

    private static native void awaitNet(long net);

    private static native void cancelNet(long net);

    private static native void resetNet(long net);

    private static native boolean testNet(long net, byte[][] text);

    private static native byte[] testJsonNet(long net);

    private static native byte[] profileNet(long net, int runs);
}

/* Uses vknn.Net as an app does: runs a bundle on an input's bytes, writes the output's, and says what
 * every kind of misuse gives. */
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import vknn.Net;

public final class Use {
    private Use() {}

    private static void fails(String what, Runnable call) {
        try {
            call.run();
            System.out.println(what + ": did not throw");
        } catch (Net.Failure failure) {
            System.out.println(what + ": Failure " + failure.status + " " + failure.statusName() + " "
                    + failure.getMessage());
        } catch (RuntimeException error) {
            System.out.println(what + ": " + error.getClass().getSimpleName() + " " + error.getMessage());
        }
    }

    private static ByteBuffer mapped(String path) throws IOException {
        try (FileInputStream file = new FileInputStream(path)) {
            return file.getChannel().map(FileChannel.MapMode.READ_ONLY, 0, file.getChannel().size());
        }
    }

    private static byte[] answer(Net net) {
        ByteBuffer scores = net.output("out").allocate();
        net.get("out", scores);
        byte[] found = new byte[scores.remaining()];
        scores.get(found);
        return found;
    }

    /** What a net says as it is opened, and in which threads, where its pipelines cannot be made. */
    private static void listen(String path) {
        Set<String> threads = Collections.synchronizedSet(new TreeSet<String>());
        Net.Options options = new Net.Options();
        options.threads = 2;
        options.log = line -> {
            if (line.contains("VkResult")) {
                threads.add(Thread.currentThread().getName());
            }
        };
        fails("pipelines", () -> Net.open(new File(path), options));
        threads.remove("main");
        System.out.println("other threads " + !threads.isEmpty());
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 1) {
            listen(arguments[0]);
            return;
        }
        final ByteBuffer data = mapped(arguments[1]).order(ByteOrder.nativeOrder());
        final Net closed;
        try (final Net net = Net.open(new File(arguments[0]), null)) {
            closed = net;
            for (Net.Port port : net.inputs()) {
                System.out.println("input " + port.name + " " + port.type + " " + Arrays.toString(port.dims));
            }
            for (Net.Port port : net.outputs()) {
                long[] shape = net.shape(port.name);
                System.out.println("output " + port.name + " " + port.bytes + " " + Arrays.toString(shape));
            }
            net.set("data", data);
            net.run();
            byte[] scores = answer(net);
            try (FileOutputStream file = new FileOutputStream(arguments[2])) {
                file.write(scores);
            }
            net.reset();
            net.submit();
            net.await();
            System.out.println("same " + Arrays.equals(scores, answer(net)) + " " + (net.memory() > 0) + " "
                    + net.profile(2).contains("\ud83d\ude00\"") + " "
                    + Net.devices().contains(net.device()));
            ByteBuffer own = net.borrow(net.input("data"));
            ByteBuffer result = net.borrow(net.output("out"));
            byte[] borrowed = new byte[result.remaining()];
            own.put(new byte[own.remaining()]).flip();
            net.run();
            System.out.println("zeros " + Arrays.equals(scores, answer(net)));
            own.put(data.duplicate());
            net.run();
            result.get(borrowed);
            System.out.println("borrowed " + Arrays.equals(scores, borrowed) + " " + own.order());
            Net.Answer test = net.test();
            System.out.println("test " + test.isRight + "\n" + test.text);
            try (FileOutputStream file = new FileOutputStream(arguments[2] + ".json")) {
                file.write(net.testJson().getBytes(StandardCharsets.UTF_8));
            }

            Net.Options options = new Net.Options();
            options.beside = net;
            try (Net second = Net.open(mapped(arguments[0]), options)) {
                ByteBuffer part = ByteBuffer.allocateDirect(data.remaining() + 64).order(ByteOrder.nativeOrder());
                part.position(64); // what lies before the position is not taken
                part.put(data.duplicate()).position(64);
                second.set("data", part);
                second.run();
                System.out.println("second " + Arrays.equals(scores, answer(second)));
                second.cancel();
            }

            final List<String> lines = Collections.synchronizedList(new ArrayList<String>());
            options = new Net.Options();
            options.threads = 2;
            options.log = line -> {
                lines.add(line);
                throw new IllegalStateException("thrown by the log");
            };
            try (Net third = Net.open(new File(arguments[0]), options)) {
                System.out.println("log " + lines.get(0).startsWith("device: " + third.device()) + " "
                        + lines.get(1).contains("\ud83d\ude00") + " " + Net.version());
            }

            final ByteBuffer small = ByteBuffer.allocateDirect(4).order(ByteOrder.nativeOrder());
            fails("size", () -> net.set("data", small));
            fails("room", () -> net.get("out", small));
            fails("null", () -> net.set("data", null));
            fails("heap", () -> net.set("data", ByteBuffer.allocate(data.remaining())));
            fails("order", () -> net.set("data", ByteBuffer.allocateDirect(data.remaining())));
            fails("read-only", () -> {
                ByteBuffer room = net.output("out").allocate();
                net.get("out", room.asReadOnlyBuffer().order(ByteOrder.nativeOrder()));
            });
            fails("name", () -> net.set("nothing", data));
            fails("no port", () -> net.borrow(null));
            fails("no name", () -> net.output(null));
            fails("runs", () -> net.profile(0));
        }
        closed.close();
        closed.cancel();
        fails("closed", closed::run);
        fails("closed port", () -> closed.borrow(closed.input("data")));
        fails("closed test", closed::testJson);
        fails("beside", () -> {
            Net.Options options = new Net.Options();
            options.beside = closed;
            Net.open(new File(arguments[0]), options);
        });
        fails("missing", () -> Net.open(new File("no such \ud83d\ude00.vkb"), null));
        fails("no bundle", () -> Net.open(small(), null));
        fails("hash", () -> {
            Net.Options options = new Net.Options();
            options.sha256 = new byte[32];
            Net.open(new File(arguments[0]), options);
        });
        fails("short hash", () -> {
            Net.Options options = new Net.Options();
            options.sha256 = new byte[31];
            Net.open(new File(arguments[0]), options);
        });
        fails("device", () -> {
            Net.Options options = new Net.Options();
            options.device = "no such device";
            Net.open(new File(arguments[0]), options);
        });
        fails("zero", () -> {
            Net.Options options = new Net.Options();
            options.target = "a\0b";
            Net.open(new File(arguments[0]), options);
        });
    }

    private static ByteBuffer small() {
        return ByteBuffer.allocateDirect(4);
    }
}

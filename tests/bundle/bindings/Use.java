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
import java.util.Arrays;
import vknn.Net;

public final class Use {
    private Use() {}

    private static void fails(String what, Runnable call) {
        try {
            call.run();
            System.out.println(what + ": did not throw");
        } catch (Net.Failure failure) {
            System.out.println(what + ": Failure " + failure.status + " " + failure.getMessage());
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

    public static void main(String[] arguments) throws Exception {
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
            fails("no name", () -> net.output(null));
            fails("runs", () -> net.profile(0));
        }
        closed.close();
        closed.cancel();
        fails("closed", closed::run);
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

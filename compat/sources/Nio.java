import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousFileChannel;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.*;
import java.nio.file.attribute.*;
import java.util.*;
import java.util.concurrent.Future;
import java.util.stream.*;
import static java.nio.file.StandardOpenOption.*;

/** Files by Java's NIO. Arguments: the directory; `attributes` for what copies times and modes alone. */
public class Nio {
    static Path root;

    public static void main(String[] arguments) throws Exception {
        root = Path.of(arguments[0]);
        if (arguments.length > 1) {
            attributes();
            return;
        }
        channels();
        transfers();
        locks();
        names();
        asynchronous();
        streams();
    }

    static void channels() throws Exception {
        try (FileChannel file = FileChannel.open(root.resolve("channel"), CREATE_NEW, READ, WRITE)) {
            ByteBuffer direct = ByteBuffer.allocateDirect(100_000);
            while (direct.hasRemaining()) direct.put((byte) (direct.position() % 251));
            System.out.println(file.write(direct.flip()) + " " + file.position());
            file.write(ByteBuffer.wrap("positioned".getBytes()), 5000);
            file.write(new ByteBuffer[] {ByteBuffer.wrap("gat".getBytes()), ByteBuffer.wrap("her".getBytes())});
            file.force(false);
            file.force(true);
            ByteBuffer read = ByteBuffer.allocate(12);
            System.out.println(file.read(read, 4999) + " " + new String(read.array(), 1, 10) + " " + file.size());
            ByteBuffer[] scattered = {ByteBuffer.allocate(3), ByteBuffer.allocate(7)};
            System.out.println(file.position(100_000).read(scattered) + " " + new String(scattered[1].array(), 0, 3));
            file.truncate(60_000);
            System.out.println(file.size() + " " + file.position() + " " + file.read(ByteBuffer.allocate(1), 70_000));
        }
        try (FileChannel file = FileChannel.open(root.resolve("synced"), CREATE, WRITE, APPEND, DSYNC)) {
            for (int n = 0; n < 20; n++) file.write(ByteBuffer.wrap(("line " + n + "\n").getBytes()));
        }
        System.out.println(Files.readAllLines(root.resolve("synced")).size());
    }

    static void transfers() throws Exception {
        try (FileChannel from = FileChannel.open(root.resolve("channel"), READ);
             FileChannel part = FileChannel.open(root.resolve("part"), CREATE, WRITE);
             FileChannel whole = FileChannel.open(root.resolve("whole"), CREATE, WRITE)) {
            System.out.println(from.transferTo(1000, 50_000, part) + " " + from.transferTo(0, 60_000, whole));
        }
        System.out.println(Files.mismatch(root.resolve("channel"), root.resolve("whole")) + " " + Files.size(root.resolve("part")));
    }

    static void locks() throws Exception {
        try (FileChannel one = FileChannel.open(root.resolve("locked"), CREATE, READ, WRITE);
             FileChannel two = FileChannel.open(root.resolve("locked"), READ, WRITE)) {
            try (var lock = one.lock(0, 10, false)) {
                System.out.println(lock.isValid() + " " + two.tryLock(10, 10, false).isValid());
                try {
                    two.tryLock(5, 2, true);
                } catch (OverlappingFileLockException held) {
                    System.out.println("held");
                }
            }
            System.out.println(two.tryLock(0, 5, false) != null);
        }
    }

    static void names() throws Exception {
        Files.createDirectories(root.resolve("tree/a/b"));
        for (int n = 0; n < 50; n++) Files.writeString(root.resolve("tree/a/b/f" + n), "x".repeat(n));
        Files.createSymbolicLink(root.resolve("tree/link"), Path.of("a/b"));
        Files.createLink(root.resolve("tree/hard"), root.resolve("tree/a/b/f9"));
        try (Stream<Path> walked = Files.walk(root.resolve("tree"))) {
            System.out.println(walked.map(path -> root.relativize(path).toString()).sorted().collect(Collectors.joining(" ")));
        }
        Files.copy(root.resolve("channel"), root.resolve("copied"));
        Files.move(root.resolve("copied"), root.resolve("tree/moved"), StandardCopyOption.ATOMIC_MOVE);
        Files.setLastModifiedTime(root.resolve("tree/moved"), FileTime.fromMillis(1_000_000_000_123L));
        Files.setPosixFilePermissions(root.resolve("tree/moved"), PosixFilePermissions.fromString("rw-r-----"));
        PosixFileAttributes facts = Files.readAttributes(root.resolve("tree/moved"), PosixFileAttributes.class);
        System.out.println(facts.size() + " " + facts.lastModifiedTime() + " " + PosixFilePermissions.toString(facts.permissions()));
        System.out.println(Files.isSameFile(root.resolve("tree/hard"), root.resolve("tree/a/b/f9")) + " " + root.resolve("tree/link").toRealPath());
        for (Path path : new Path[] {root.resolve("none"), root.resolve("tree")}) {
            try {
                Files.delete(path);
            } catch (FileSystemException error) {
                System.out.println(error.getClass().getSimpleName());
            }
        }
        Path temporary = Files.createTempFile(root, "t", null);
        System.out.println(Files.deleteIfExists(temporary) + " " + Files.getFileStore(root).getTotalSpace() / Long.MAX_VALUE);
    }

    static void attributes() throws Exception {
        Path from = Files.writeString(root.resolve("from"), "dated");
        Files.setLastModifiedTime(from, FileTime.fromMillis(1_000_000_000_123L));
        Files.setPosixFilePermissions(from, PosixFilePermissions.fromString("rw-r-----"));
        Files.copy(from, root.resolve("to"), StandardCopyOption.COPY_ATTRIBUTES);
        System.out.println(Files.getLastModifiedTime(root.resolve("to")) + " " + Files.getPosixFilePermissions(root.resolve("to")).size());
    }

    static void asynchronous() throws Exception {
        try (AsynchronousFileChannel file = AsynchronousFileChannel.open(root.resolve("asynchronous"), CREATE, READ, WRITE)) {
            List<Future<Integer>> writes = new ArrayList<>();
            for (int n = 0; n < 64; n++) writes.add(file.write(ByteBuffer.wrap(new byte[1000]), n * 1000L));
            int total = 0;
            for (Future<Integer> write : writes) total += write.get();
            System.out.println(total + " " + file.read(ByteBuffer.allocate(500), 63_800).get() + " " + file.size());
        }
    }

    static void streams() throws Exception {
        try (var writer = Files.newBufferedWriter(root.resolve("lines"))) {
            for (int n = 0; n < 10_000; n++) writer.write("line " + n + "\n");
        }
        try (var random = new java.io.RandomAccessFile(root.resolve("lines").toFile(), "rwd")) {
            random.seek(100);
            random.writeBytes("RANDOM");
            random.setLength(random.length() - 5);
        }
        try (var lines = Files.lines(root.resolve("lines"))) {
            System.out.println(lines.filter(line -> line.contains("RANDOM")).count() + " " + Files.size(root.resolve("lines")));
        }
        System.out.println(new java.io.File(root.toString()).list().length);
    }
}

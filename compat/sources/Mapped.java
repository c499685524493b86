import java.io.IOException;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import static java.nio.file.StandardOpenOption.*;

/** A private and two shared mappings, and transferFrom, which makes one. Argument: the directory. Prints what the shared ones say. */
public class Mapped {
    public static void main(String[] arguments) throws Exception {
        Path path = Path.of(arguments[0], "mapped");
        String said = "";
        try (FileChannel file = FileChannel.open(path, CREATE, READ, WRITE)) {
            file.write(java.nio.ByteBuffer.wrap(new byte[10_000]));
            MappedByteBuffer own = file.map(FileChannel.MapMode.PRIVATE, 0, 10_000);
            own.put(0, (byte) 7);
            if (own.get(0) != 7) throw new IllegalStateException("private mapping");
            for (FileChannel.MapMode mode : new FileChannel.MapMode[] {FileChannel.MapMode.READ_ONLY, FileChannel.MapMode.READ_WRITE}) {
                try {
                    file.map(mode, 0, 10_000).force();
                } catch (IOException error) {
                    said += mode + " says `" + error + "`; ";
                }
            }
            try (FileChannel copy = FileChannel.open(path.resolveSibling("copy"), CREATE, WRITE)) {
                copy.transferFrom(file.position(0), 0, 10_000);
            } catch (IOException error) {
                said += "transferFrom says `" + error + "`; ";
            }
        }
        System.out.println(said.isEmpty() ? "as on a local directory" : said.substring(0, said.length() - 2));
    }
}

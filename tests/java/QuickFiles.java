import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.local.LocalConfigKeys;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local files, but permissions are set by a system call. Hadoop starts the program chmod
 * for each new file and each new folder unless it finds its native library, which pyspark lacks.
 */
public class QuickFiles extends LocalFileSystem {
    public QuickFiles() {
        super(new Raw());
    }

    private static class Raw extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
                return;
            }
            String letters = permission.getUserAction().SYMBOL
                + permission.getGroupAction().SYMBOL + permission.getOtherAction().SYMBOL;
            File file = pathToFile(path);
            Files.setPosixFilePermissions(file.toPath(), PosixFilePermissions.fromString(letters));
        }
    }

    /** The same behind Hadoop's other interface to files, which checkpoints are written through. */
    public static class Context extends ChecksumFs {
        public Context(URI uri, Configuration settings) throws IOException, URISyntaxException {
            super(new RawContext(uri, settings));
        }
    }

    private static class RawContext extends DelegateToFileSystem {
        RawContext(URI uri, Configuration settings) throws IOException, URISyntaxException {
            super(uri, new Raw(), settings, "file", false);
        }

        @Override
        public int getUriDefaultPort() {
            return -1;
        }

        @Override
        public FsServerDefaults getServerDefaults(Path path) throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        @Override
        public FsServerDefaults getServerDefaults() throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        @Override
        public boolean isValidName(String name) {
            return true; // as Hadoop's own: the system refuses what it does not allow
        }
    }
}

import java.io.File;
import java.util.Arrays;
import java.util.Comparator;
import java.util.EnumSet;
import net.schmizz.sshj.SSHClient;
import net.schmizz.sshj.sftp.RenameFlags;
import net.schmizz.sshj.sftp.SFTPClient;
import net.schmizz.sshj.transport.verification.PromiscuousVerifier;
import net.schmizz.sshj.xfer.FileSystemFile;

/**
 * Uploads each file of a folder as sshj does, under a temporary name that it then renames.
 *
 * <p>PASSWORD=… java Put PORT USER FOLDER
 */
public class Put {
  public static void main(String[] args) throws Exception {
    try (SSHClient ssh = new SSHClient()) {
      ssh.addHostKeyVerifier(new PromiscuousVerifier());
      ssh.connect("127.0.0.1", Integer.parseInt(args[0]));
      ssh.authPassword(args[1], System.getenv("PASSWORD"));
      File[] files = new File(args[2]).listFiles();
      Arrays.sort(files, Comparator.comparing(File::getName));
      try (SFTPClient sftp = ssh.newSFTPClient()) {
        // Times and modes are set after the close, as sshj does by default.
        for (File file : files) {
          String temporary = file.getName() + ".part";
          sftp.put(new FileSystemFile(file), temporary);
          sftp.rename(temporary, file.getName(), EnumSet.of(RenameFlags.OVERWRITE, RenameFlags.ATOMIC));
        }
      }
    }
  }
}

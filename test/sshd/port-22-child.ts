/** Where port 22 is free: starts sshd there, and prints what `berth doctor --login` gets for a user that does not exist. */
import { createLog } from '../../src/foundation/base/log.ts';
import { openSftpClient } from '../../src/operating/doctor/checks/login.ts';
import { prepareSshd } from '../../src/machine/sftp/sshd.ts';
import { scratch } from '../support/scratch.ts';
import { runSshd } from '../support/sshd.ts';

using place = scratch();
const config = { ...place.config, sftp: { ...place.config.sftp, port: 22 } };
await prepareSshd(config, createLog('error'));
await using _sshd = await runSshd(config);
await using client = await openSftpClient(config, 'nobody-there');
process.stdout.write(`${await client.put('content', 'wrong')}\n`);

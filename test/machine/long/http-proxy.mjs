/** http-proxy.mjs ADDRESS PORT: an HTTP proxy for the trials, with CONNECT and plain requests. */
import { createServer, request } from 'node:http';
import { connect } from 'node:net';

const [address, port] = process.argv.slice(2);
const server = createServer((incoming, outgoing) => {
  const { host, port: toPort, pathname, search } = new URL(incoming.url);
  const { method, headers } = incoming;
  const options = { host: host.split(':')[0], port: toPort || 80, path: pathname + search, method, headers };
  const onward = request(options, (answer) => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    answer.pipe(outgoing);
  });
  onward.on('error', () => outgoing.destroy());
  incoming.pipe(onward);
});
server.on('connect', ({ url }, client, head) => {
  const [host, toPort] = url.split(':');
  const onward = connect(Number(toPort), host, () => {
    client.write('HTTP/1.1 200 OK\r\n\r\n');
    onward.write(head);
    onward.pipe(client).pipe(onward);
  });
  onward.on('error', () => client.destroy());
  client.on('error', () => onward.destroy());
});
server.listen(Number(port), address);

/** What an application does with berth: a directory for a customer, each file fetched as it comes, and acknowledged. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { createBerthClient, verifyWebhook } from 'berth-client';

const { BERTH_URL: url = '', BERTH_KEY: key = '', PORT: port = '' } = process.env;
const berth = createBerthClient({ url, key });

const { data: created, error } = await berth.POST('/api/v1/directories', {
  params: { header: { 'Idempotency-Key': 'customer-42' } },
  body: { directory: { name: 'Acme Corp', external_id: 'customer-42', metadata: { tier: 'gold' } } },
});
if (!created) throw new Error(JSON.stringify(error));
const { id, webhook_secret: secret, sftp_username: username, sftp_password: password } = created.data;

async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { filename } = verifyWebhook(await buffer(request), request.headers, secret);
  response.writeHead(204).end();
  const { data: uploads } = await berth.GET('/api/v1/directories/{id}/uploads', {
    params: { path: { id }, query: { prefix: filename } },
  });
  for (const { id: upload_id } of uploads?.data ?? []) {
    const params = { path: { id, upload_id } };
    const content = await berth.GET('/api/v1/directories/{id}/uploads/{upload_id}/content', {
      params,
      parseAs: 'text',
    });
    await berth.DELETE('/api/v1/directories/{id}/uploads/{upload_id}', { params });
    console.log(`fetched ${filename}: ${content.data}`);
  }
}

createServer((request, response) => void take(request, response)).listen(Number(port), '127.0.0.1');
const webhook_url = `http://127.0.0.1:${port}/`;
await berth.PATCH('/api/v1/directories/{id}', { params: { path: { id } }, body: { directory: { webhook_url } } });
console.log(JSON.stringify({ username, password }));

/**
 * Signing in with tokens as the well-known providers issue them: which claims they have, where they are, and of which type.
 *
 * Sources: Microsoft's "ID token claims reference", Google's "OpenID Connect", Okta's "OpenID Connect & OAuth 2.0", Amazon's
 * "UserInfo endpoint" and "ID token", Auth0's "Create custom claims", Keycloak's "Protocol mappers".
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../src/foundation/base/config.ts';
import { createLog } from '../../src/foundation/base/log.ts';
import type { Person } from '../support/openid-provider.ts';
import { onDatabase } from '../support/users.ts';
import { come, company, COMPANY } from './company.ts';

const SETTINGS = {
  BERTH_OIDC_ISSUER: 'https://login.example.com',
  BERTH_OIDC_CLIENT_ID: 'berth',
  BERTH_OIDC_CLIENT_SECRET: 'secret',
  BERTH_OIDC_MAP: `staff=${COMPANY}:member`,
};

interface Shape {
  readonly settings: Readonly<Record<string, string>>;
  readonly userinfo: Person;
  readonly idToken: Readonly<Record<string, unknown>>;
}

const EMAIL = 'dana@example.com';
const map = (value: string): { BERTH_OIDC_MAP: string } => ({ BERTH_OIDC_MAP: `${value}=${COMPANY}:member` });
const GROUP = '6f1d9c2a-0c53-4b7f-9a51-2f0d7e9b3c11';
const ENTRA = { sub: 'AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ', email: 'Dana@Example.com' };
const OKTA = { sub: '00uid4BxXw6I6TV4m0g3', email: EMAIL };

const PROVIDERS: Readonly<Record<string, Shape>> = {
  'Entra ID with groups, which never says whether an email is verified': {
    settings: { ...map(GROUP), BERTH_OIDC_TRUSTED_DOMAINS: 'example.org, Example.COM' },
    userinfo: ENTRA,
    idToken: { ...ENTRA, groups: [GROUP] },
  },
  'Entra ID with app roles': {
    settings: { ...map('Sftp.Admin'), BERTH_OIDC_CLAIM: 'roles', BERTH_OIDC_TRUSTED_DOMAINS: 'example.com' },
    userinfo: ENTRA,
    idToken: { ...ENTRA, roles: ['Sftp.Admin'] },
  },
  'Google, which has no groups': {
    settings: { ...map('example.com'), BERTH_OIDC_CLAIM: 'hd' },
    userinfo: { sub: '10769150350006150715113082367', email: EMAIL, email_verified: true, hd: 'example.com' },
    idToken: { email: EMAIL, email_verified: true, hd: 'example.com' },
  },
  'Okta, whose ID token has the email alone': {
    settings: map('sftp users'),
    userinfo: { ...OKTA, email_verified: true, groups: ['Everyone', 'sftp users'] },
    idToken: { email: EMAIL },
  },
  'Keycloak, whose groups are paths': {
    settings: map('/sftp/admins'),
    userinfo: { sub: 'f3c5e8d2-4f6a-4c0e-9a4f-5b0c5b6f8f10', email: EMAIL, email_verified: true },
    idToken: { email: EMAIL, email_verified: true, groups: ['/sftp/admins', '/staff'] },
  },
  'Cognito, whose userinfo endpoint sends text': {
    settings: { ...map('admins'), BERTH_OIDC_CLAIM: 'cognito:groups' },
    userinfo: { sub: 'aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee', email: EMAIL, email_verified: 'true' },
    idToken: { 'cognito:groups': ['admins'] },
  },
  'Auth0, whose own claims are URLs': {
    settings: { ...map('admins'), BERTH_OIDC_CLAIM: 'https://example.com/groups' },
    userinfo: { sub: 'auth0|5f7c8ec7c33c6c004bbafe82', email: EMAIL, email_verified: true },
    idToken: { email: EMAIL, email_verified: true, 'https://example.com/groups': ['admins'] },
  },
};

/** A log, and the fields of its last line with that message. */
function linesOf(message: string) {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string): void => void lines.push(JSON.parse(line) as Record<string, unknown>);
  return { log: createLog('info', { write }), find: () => lines.findLast(({ msg }) => msg === message) ?? {} };
}

for (const [name, { settings, userinfo, idToken }] of Object.entries(PROVIDERS)) {
  test(`somebody signs in with a token of ${name}`, async () => {
    await using here = await company(settings);
    const { answer } = await come(here, userinfo, { idToken });
    assert.equal(answer.status, 303, answer.text);
    const users = await onDatabase(here.berth, async ({ db }) => db.selectFrom('users').selectAll().execute());
    assert.deepEqual(
      users.map(({ email, oidc_subject }) => [email, oidc_subject]),
      [[EMAIL, `${here.provider.issuer} ${userinfo.sub}`]],
    );
  });
}

test('an unverified email is trusted only in the domains of the setting, and never against the provider’s word', async () => {
  await using here = await company({ ...map(GROUP), BERTH_OIDC_TRUSTED_DOMAINS: 'example.com' });
  const groups = [GROUP];
  for (const [person, message] of [
    [{ sub: '1', email: 'dana@evil.example' }, /whether dana@evil\.example is yours \(claim “email_verified”\)/],
    [{ sub: '2', email: 'dana@sub.example.com' }, /whether dana@sub\.example\.com is yours/],
    [{ sub: '3', email: 'dana@evil.example@example.org' }, /whether dana@evil\.example@example\.org is yours/],
    [{ sub: '4', email: EMAIL, email_verified: false }, /dana@example\.com has not been confirmed/],
    [{ sub: '5', email: EMAIL, email_verified: 'false' }, /dana@example\.com has not been confirmed/],
    [{ sub: '6', email: EMAIL, email_verified: 1 }, /dana@example\.com has not been confirmed/],
  ] as const) {
    const { answer } = await come(here, { ...person, groups } as Person);
    assert.equal(answer.status, 403);
    assert.match(answer.text, message);
  }
  assert.equal((await come(here, { sub: '7', email: 'dana@EXAMPLE.com', groups })).answer.status, 303);
});

test('a confirmation counts only for the email that it stands beside', async () => {
  await using here = await company(map(GROUP));
  const confirmed = { sub: '1', email: 'eve@example.com', email_verified: true, groups: [GROUP] };
  const { answer } = await come(here, confirmed, { idToken: { email: EMAIL, groups: [GROUP] } });
  assert.equal(answer.status, 403, answer.text);
  const unconfirmed = { sub: '2', email: EMAIL, groups: [GROUP] };
  const other = await come(here, unconfirmed, { idToken: { email_verified: true, groups: [GROUP] } });
  assert.equal(other.answer.status, 403, other.answer.text);
});

test('a refusal names the claim or the value that does not fit, briefly for the user and in full in the log', async () => {
  const { log, find } = linesOf('a sign-in with the company login was refused');
  await using here = await company(map(GROUP), { log });
  const elsewhere = { _claim_names: { groups: 'src1' } };
  for (const [person, shown, logged] of [
    [{ sub: '1', groups: [GROUP] }, /no email address for you \(claim “email”\)/, { claim: 'email' }],
    [
      { sub: '2', email: '\u212Ain@example.com', email_verified: true },
      /“\u212Ain@example\.com” as your email address \(claim “email”\)/,
      { claim: 'email', value: '\u212Ain@example.com' },
    ],
    [{ sub: '3', email: EMAIL }, /\(claim “email_verified”\)/, { claim: 'email_verified' }],
    [
      { sub: '4', email: EMAIL, email_verified: true },
      /sends nothing in the claim “groups”/,
      { claim: 'groups', mapped: [GROUP] },
    ],
    [
      { sub: '5', email: EMAIL, email_verified: true, ...elsewhere },
      /sends nothing in the claim “groups”/,
      { claim: 'groups', mapped: [GROUP], note: /more than 200 groups/ },
    ],
    [
      { sub: '6', email: EMAIL, email_verified: true, groups: ['a', 'b'] },
      /None of your values in the claim “groups” gives you access here/,
      { claim: 'groups', value: ['a', 'b'], mapped: [GROUP] },
    ],
  ] as const) {
    const { answer } = await come(here, person);
    assert.equal(answer.status, 403);
    assert.match(answer.text, shown);
    const line = find();
    const { note, ...fields } = logged as Record<string, unknown> & { note?: RegExp };
    for (const [name, value] of Object.entries({ subject: person.sub, ...fields })) {
      assert.deepEqual(line[name], value, `${name} of ${person.sub}`);
    }
    assert.match(String(line['note']), note ?? /^undefined$/);
  }
});

test('what the provider refuses is named by its code, and its words are in the log', async () => {
  const { log, find } = linesOf('the company login does not work');
  await using here = await company({ BERTH_OIDC_CLIENT_SECRET: 'an expired secret' }, { log });
  const refused = (await come(here, { sub: '1' })).answer;
  assert.match(refused.text, /did not confirm who you are \(“invalid_client”\)/);
  assert.deepEqual([find()['error'], find()['error_description']], ['invalid_client', 'client authentication failed']);

  const denied = await come(here, { sub: '1' }, { change: (url) => url.replace('prompt=', '').concat('&prompt=none') });
  assert.match(denied.answer.text, /did not confirm who you are \(“login_required”\)/);
  assert.equal(find()['error'], 'login_required');

  const wrong = await come(here, { sub: '1' }, { change: (url) => url.replace(/nonce=[^&]*/, 'nonce=forged') });
  assert.match(wrong.answer.text, /did not confirm who you are \(“invalid_client”\)/);
});

test('an issuer that stands for every tenant of Entra ID is refused', () => {
  for (const tenant of ['common', 'organizations', 'consumers']) {
    const issuer = `https://login.microsoftonline.com/${tenant}/v2.0`;
    assert.throws(
      () => readConfig({ ...SETTINGS, BERTH_OIDC_ISSUER: issuer }),
      /BERTH_OIDC_ISSUER must name one tenant/,
    );
  }
  readConfig({ ...SETTINGS, BERTH_OIDC_ISSUER: `https://login.microsoftonline.com/${GROUP}/v2.0` });
});

test('domains are host names', () => {
  for (const bad of ['@example.com', 'dana@example.com', '*.example.com', '*', 'https://example.com']) {
    assert.throws(
      () => readConfig({ ...SETTINGS, BERTH_OIDC_TRUSTED_DOMAINS: bad }),
      /BERTH_OIDC_TRUSTED_DOMAINS must be domains such as example\.com/,
    );
  }
});

/** Slugs and usernames from any name. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assert as holds, property, string } from 'fast-check';
import { generateUsername, slugOf } from '../../../src/rules/directories/identity.ts';

test('names become slugs as one would write them', () => {
  const cases = {
    'Acme GmbH': 'acme-gmbh',
    'Acme Corp': 'acme-corp',
    'Über & Söhne': 'ueber-and-soehne',
    '  a  ': 'a',
    日本語: 'directory',
    '!!!': 'directory',
  };
  for (const [name, slug] of Object.entries(cases)) assert.equal(slugOf(name), slug);
});

test('any name gives a slug of words and a username that every system accepts, never twice', () => {
  const seen = new Set<string>();
  holds(
    property(string({ unit: 'binary', maxLength: 100 }), (name) => {
      const slug = slugOf(name);
      assert.match(slug, /^[a-z0-9]+(-[a-z0-9]+)*$/);
      const username = generateUsername(slug);
      assert.match(username, /^[a-z][a-z0-9]*(-[a-z0-9]+)*-[a-z0-9]{8}$/);
      assert.ok(username.length <= 32);
      assert.ok(!seen.has(username));
      seen.add(username);
    }),
  );
  assert.match(generateUsername('2026-reports'), /^d-2026-reports-[a-z0-9]{8}$/);
  assert.match(generateUsername(`${'a'.repeat(22)}-b`), /^a{22}-[a-z0-9]{8}$/);
});

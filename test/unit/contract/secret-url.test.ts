/** URLs that carry secrets: docs/dev/contract.md#destinations, redacted URL values. */
import t from 'tap'
import { mergedConfig, redactedConfig } from '../../../src/contract/destination-secrets.ts'
import { hasUrlSecrets, redactedUrl, restoredUrl, urlSecrets } from '../../../src/contract/secret-url.ts'

t.test('user information and query values are redacted, the rest is shown as it was given', async (t) => {
  const shown: Record<string, string> = {
    'https://example.com/hook': 'https://example.com/hook',
    'https://example.com:8443/a@b/c': 'https://example.com:8443/a@b/c',
    'https://example.com?a=1': 'https://example.com?a=[redacted]',
    'https://example.com/h?a=1&b=&c&d=x=y': 'https://example.com/h?a=[redacted]&b=&[redacted]&d=[redacted]',
    'https://user:p%40ss@example.com/h': 'https://[redacted]@example.com/h',
    'https://u@ser:p@example.com/h?t=1#f': 'https://[redacted]@example.com/h?t=[redacted]',
    'HTTPS://t0ken@example.com': 'HTTPS://[redacted]@example.com',
    'http://[::1]:9/x': 'http://[::1]:9/x',
  }
  for (const [url, expected] of Object.entries(shown)) t.equal(redactedUrl(url), expected, url)
  t.equal(redactedUrl('https:\\\\user:pw@host\\x?y=z'), '[redacted]', 'what cannot be told apart is hidden')
  t.equal(redactedUrl('https:user:pw@host'), '[redacted]')
  t.notOk(hasUrlSecrets('https://example.com/hook'))
  t.ok(hasUrlSecrets('https://example.com/hook?a=1'))
  t.same(
    urlSecrets('https://u:p%20w@h/?t=a+b').sort(),
    ['a b', 'a+b', 'p w', 'p%20w', 'u', 'u', 'u:p w', 'u:p%20w'].sort(),
  )
})

t.test('a redacted URL that is sent back keeps the stored values, also with another path', async (t) => {
  const stored = 'https://me:pw@example.com/a?k=1&k=2&t=3#part'
  t.equal(restoredUrl(redactedUrl(stored), stored), stored)
  t.equal(
    restoredUrl('https://[redacted]@example.com/b?k=[redacted]&k=new&t=[redacted]', stored),
    'https://me:pw@example.com/b?k=1&k=new&t=3',
  )
  t.equal(
    restoredUrl('https://example.com/a?other=[redacted]', stored),
    'https://example.com/a?other=[redacted]',
    'a mark without a stored value stays, and is refused later',
  )
  t.equal(restoredUrl('https://example.org/', stored), 'https://example.org/')
})

t.test('a path is a secret where it is said to be one', async (t) => {
  const shown: Record<string, string> = {
    'https://h.test/services/T0/B0/x': 'https://h.test/[redacted]',
    'https://me@h.test:8443/a?k=1#f': 'https://[redacted]@h.test:8443/[redacted]?k=[redacted]',
    'https://h.test/[redacted]': 'https://h.test/[redacted]',
    'https://h.test/': 'https://h.test/',
    'https://h.test?k=1': 'https://h.test?k=[redacted]',
  }
  for (const [url, expected] of Object.entries(shown)) t.equal(redactedUrl(url, true), expected, url)
  t.ok(hasUrlSecrets('https://h.test/a', true))
  t.notOk(hasUrlSecrets('https://h.test/', true))
  t.same(urlSecrets('https://h.test/api/t%6Fken01', true), [
    '/api/t%6Fken01',
    '/api/token01',
    't%6Fken01',
    'token01',
  ])
  const stored = 'https://h.test/secret/path?k=1'
  t.equal(restoredUrl('https://h.test/[redacted]?n=2', stored, true), 'https://h.test/secret/path?n=2')
  t.equal(restoredUrl('https://h.test/[redacted]?n=2', stored), 'https://h.test/[redacted]?n=2')
  t.equal(restoredUrl('https://h.test/other', stored, true), 'https://h.test/other')
})

t.test('secret_headers are merged one by one; [redacted] and "" keep, null removes', async (t) => {
  const type = 'destination_http_endpoint'
  const stored = { url: 'https://h/?a=1', secret_headers: { 'X-One': '1', 'X-Two': '2' }, method: 'PUT' }
  t.same(redactedConfig(type, stored), {
    url: 'https://h/?a=[redacted]',
    secret_headers: { 'X-One': '[redacted]', 'X-Two': '[redacted]' },
    method: 'PUT',
  })
  t.same(mergedConfig(type, stored, redactedConfig(type, stored)), stored)
  const merge = (change: unknown) => mergedConfig(type, stored, { secret_headers: change }).secret_headers
  t.same(merge({ 'x-one': '', 'X-Three': '3' }), { 'X-One': '1', 'X-Two': '2', 'X-Three': '3' })
  t.same(merge({ 'x-one': 'new', 'X-Two': null }), { 'x-one': 'new' })
  t.equal(merge(null), undefined)
  t.equal(merge(5), 5, 'left to the schema')
})

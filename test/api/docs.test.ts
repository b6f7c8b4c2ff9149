/** The guides as the daemon serves them: pages of a known list, for anybody, and nothing else of the disk. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { call, startDaemon } from '../support/daemon.ts'
import { connectRaw } from '../support/raw-http.ts'

const built = new URL('../../dist/docs/', import.meta.url).pathname
const names = readdirSync(built, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => path.relative(built, path.join(entry.parentPath, entry.name)))

const daemon = await startDaemon({ args: ['--data-listen', '127.0.0.1:0'] })
t.teardown(() => daemon.close())
const get = (name: string, headers: Record<string, string> = {}) =>
  call('GET', `${daemon.url}/docs${name}`, headers)

t.test('every file of the guides is served as it was built, with its type', async (t) => {
  const types: Record<string, string> = {
    '.html': 'text/html; charset=utf-8',
    '.css': 'text/css; charset=utf-8',
    '.js': 'text/javascript; charset=utf-8',
    '.svg': 'image/svg+xml',
    '.png': 'image/png',
    '.json': 'application/json; charset=utf-8',
  }
  t.ok(names.length >= 10)
  for (const name of names) {
    const answer = await get(`/${name}`)
    t.equal(answer.status, 200, name)
    t.equal(answer.headers['content-type'], types[path.extname(name)] ?? 'text/plain; charset=utf-8', name)
    t.equal(answer.text, readFileSync(path.join(built, name), 'utf8'), name)
  }
  t.equal((await get('/')).text, readFileSync(path.join(built, 'index.html'), 'utf8'))
})

t.test('a browser that opens the address of the daemon is sent to the dashboard', async (t) => {
  const root = (accept: string) => call('GET', `${daemon.url}/`, { accept })
  const page = await root('text/html,application/xhtml+xml')
  t.same([page.status, page.headers.location], [302, '/dashboard'])
  t.match((await root('application/json')).body, { error: 'not_found' }, 'a program gets the usual error')
  const icon = await call('GET', `${daemon.url}/favicon.ico`, {})
  t.same([icon.status, icon.headers.location], [302, '/dashboard/favicon.svg'])
})

t.test('/docs leads to /docs/, so that links between pages work', async (t) => {
  const answer = await get('')
  t.equal(answer.status, 307)
  t.equal(answer.headers.location, 'docs/')
})

t.test('a page can load its script, styles and pictures from here, and nothing else', async (t) => {
  for (const name of ['/', '/parked.html', '/none.html']) {
    const { headers } = await get(name)
    t.match(
      headers['content-security-policy'],
      /^default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri/,
    )
    t.equal(headers['x-content-type-options'], 'nosniff')
    t.equal(headers['x-frame-options'], 'DENY')
    t.notOk('set-cookie' in headers)
  }
})

t.test('who has a page already gets no second copy', async (t) => {
  const { etag, 'cache-control': kept } = (await get('/parked.html')).headers
  t.equal(kept, 'no-cache')
  for (const known of [etag, `"other", W/${etag}`, '*']) {
    const again = await get('/parked.html', { 'if-none-match': String(known) })
    t.equal(again.status, 304, String(known))
    t.equal(again.headers.etag, etag)
    t.equal(again.text, '')
  }
  t.equal((await get('/alerts.html', { 'if-none-match': String(etag) })).status, 200)
})

t.test('HEAD is GET without the body; nothing else is taken', async (t) => {
  const connection = await connectRaw(daemon.url)
  t.teardown(() => connection.reset())
  for (const [name, status] of [
    ['parked.html', 200],
    ['none.html', 404],
  ] as const) {
    connection.write(`HEAD /docs/${name} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
    const head = await connection.answer()
    t.same([head.status, head.body], [status, ''], name)
  }
  for (const method of ['POST', 'PUT', 'DELETE']) {
    const answer = await call(method, `${daemon.url}/docs/parked.html`, {})
    t.equal(answer.status, 405)
    t.equal(answer.headers.allow, 'GET, HEAD')
  }
})

t.test('a name that is none of theirs is the page that says so, however it is written', async (t) => {
  const lost = readFileSync(path.join(built, '404.html'), 'utf8')
  const attempts = [
    '/docs/none.html',
    '/docs/../../package.json',
    '/docs/..%2f..%2fpackage.json',
    '/docs/%2e%2e/%2e%2e/package.json',
    '/docs/..\\..\\package.json',
    '/docs//etc/passwd',
    '/docs/parked.html/',
    '/docs/parked.html%00.css',
    '/docs/monitoring',
    '/docs/constructor',
  ]
  for (const attempt of attempts) {
    const connection = await connectRaw(daemon.url)
    connection.write(`GET ${attempt} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
    const { status, body } = await connection.answer()
    t.equal(status, 404, attempt)
    t.equal(body, lost, attempt)
    connection.reset()
  }
  t.match(lost, '<a href="/docs/index.html">')
})

t.test('ingest and pull have an address of their own, without guides', async (t) => {
  t.equal((await call('GET', `${daemon.dataUrl}/docs/`, {})).status, 404)
})

t.test('they go off with the dashboard', async (t) => {
  const bare = await startDaemon({ env: { PIPECTL_DASHBOARD: 'off' } })
  t.teardown(() => bare.close())
  const answer = await call<{ error: string }>('GET', `${bare.url}/docs/`, {})
  t.equal(answer.status, 404)
  t.equal(answer.body.error, 'not_found')
})

/** The built dashboard as it is served: names known at the start, nothing else. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t from 'tap'
import { dashboardPages } from '../../../src/api/http/dashboard-files.ts'
import type { ApiReply, Route } from '../../../src/api/http/route.ts'

const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-dashboard-'))
t.teardown(() => rmSync(directory, { recursive: true }))
mkdirSync(path.join(directory, 'assets'))
const files = {
  'index.html': '<!doctype html>',
  'assets/app-1a2b.js': 'script',
  'assets/app-1a2b.js.br': 'brotli',
  'assets/app-1a2b.js.gz': 'gzip',
  'assets/style-3c4d.css': 'style',
  'assets/notes.secret': 'of no known type',
}
for (const [name, text] of Object.entries(files)) writeFileSync(path.join(directory, name), text)
const routes = dashboardPages(directory)

async function get(routes: readonly Route[], at: string, accepted = ''): Promise<ApiReply> {
  const route = routes.find((one) => one.path === at)
  if (route === undefined) throw new Error(`no route ${at}`)
  const headers: Record<string, string> = accepted === '' ? {} : { 'accept-encoding': accepted }
  const request = { params: {}, query: new URLSearchParams(), body: undefined, principal: null }
  return await route.handler({ ...request, headers })
}

t.test('only files of known types are served, each under its own name', async (t) => {
  t.same(routes.map((one) => one.path).sort(), [
    '/',
    '/dashboard',
    '/dashboard/',
    '/dashboard/*',
    '/dashboard/assets/app-1a2b.js',
    '/dashboard/assets/style-3c4d.css',
    '/dashboard/index.html',
    '/favicon.ico',
  ])
  const pages = routes.filter(({ path }) => path.startsWith('/dashboard'))
  t.ok(pages.every(({ method, auth, surface }) => `${method} ${auth} ${surface}` === 'GET page management'))
})

t.test('the page is never kept, hashed files are kept for ever', async (t) => {
  for (const at of ['/dashboard', '/dashboard/', '/dashboard/*', '/dashboard/index.html']) {
    const { body, headers } = await get(routes, at)
    t.equal(String(body), '<!doctype html>')
    t.match(Object.fromEntries(headers ?? []), {
      'Content-Type': 'text/html; charset=utf-8',
      'Cache-Control': 'no-store',
    })
  }
  const { headers } = await get(routes, '/dashboard/assets/style-3c4d.css')
  t.match(Object.fromEntries(headers ?? []), {
    'Content-Type': 'text/css; charset=utf-8',
    'Cache-Control': 'public, max-age=31536000, immutable',
    Vary: 'Accept-Encoding',
  })
})

t.test('a browser gets the encoding that it takes, brotli before gzip', async (t) => {
  const cases: [string, string][] = [
    ['', 'script'],
    ['identity', 'script'],
    ['gzip, deflate, br', 'brotli'],
    ['gzip', 'gzip'],
    ['br;q=0, gzip;q=0.5', 'gzip'],
    ['GZIP;Q=0.0', 'script'],
    ['brotli', 'script'],
  ]
  for (const [accepted, text] of cases) {
    const { body, headers } = await get(routes, '/dashboard/assets/app-1a2b.js', accepted)
    t.equal(String(body), text, accepted)
    const encoding = Object.fromEntries(headers ?? [])['Content-Encoding']
    t.equal(encoding, { brotli: 'br', gzip: 'gzip' }[text], accepted)
  }
  const { body } = await get(routes, '/dashboard/assets/style-3c4d.css', 'br')
  t.equal(String(body), 'style', 'there is no other')
})

t.test('each response has memory of its own, which may be handed to another thread', async (t) => {
  const [one, other] = [await get(routes, '/dashboard'), await get(routes, '/dashboard')]
  t.not(one.body, other.body)
})

t.test('where nothing is built, the page says how to', async (t) => {
  const pages = dashboardPages(path.join(directory, 'none'))
  const { status, body } = await get(pages, '/dashboard')
  t.equal(status, 404)
  t.match(String(body), /npm run build/)
})

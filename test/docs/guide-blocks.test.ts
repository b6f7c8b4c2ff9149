/**
 * Every block of every guide is walked by the guide's test (guide-walker.ts), or has a reason here why not. Blocks of `sh` in a
 * guide that is walked give theirs beside them, as `not-run="…"`. A new page, a new block and a block that is gone fail this test.
 */
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { type Block, blocksOf } from '../support/guide-walker.ts'

/** By page: how a block's first line begins, and why nothing runs it. */
const notWalked: Record<string, Record<string, string>> = {
  alerts: { '{': 'what an alert looks like, compared in the test of the page' },
  browser: {
    '<script src=': 'for a browser: test/browser sends from pages like it',
    'import { pipectl } from': 'for a browser: test/browser imports it',
    'const events = pipectl(': 'for a browser',
    'Content-Security-Policy:': 'a header of the page',
    '<script': 'for a browser',
    'navigator.sendBeacon': 'for a browser',
  },
  cli: { 'error: there is no pipe': 'the form of an error: test/unit/cli/commands.test.ts' },
  cluster: {
    ' clients ─▶ load balancer': 'a drawing',
    'backend pipectl': 'for HAProxy: test/world/load-balancer.test.ts runs it',
  },
  concepts: { ' your clients': 'a drawing' },
  errors: { '{ "error":': 'the shape of a response' },
  'http-endpoint': { 'POST /orders HTTP/1.1': 'what an endpoint receives' },
  install: {
    'sh install.sh': 'test/package/install-script.test.ts runs it with other addresses',
    'docker build --tag': 'needs Docker; test/package/image.test.ts builds the same with podman',
    'npx ./pipectl-': 'test/package/platforms.test.ts runs it',
    'npm install -g ./pipectl-': 'test/package/installed.test.ts runs it',
    'npm run package:deb': 'test/package/deb.test.ts makes the package by the script that this runs',
    'sudo apt-get install': 'test/package/deb.test.ts runs it, in a Debian of its own',
    'sudo env MALLOC_MMAP_THRESHOLD_': 'test/package/deb.test.ts starts its daemons by it',
    'sudo cat /var/lib/pipectl/first-key': 'test/package/deb.test.ts runs it',
    'sudo runuser -u pipectl -- pipectl doctor': 'test/package/deb.test.ts runs it',
    '(umask 077; openssl':
      'test/package/container.test.ts makes the key; the rest needs Docker, which the tests do not have',
  },
  monitoring: { 'scrape_configs:': 'of Prometheus' },
  releases: {
    'gpg --import': 'test/package/release.test.ts runs it in the folder of a release',
    'sudo install -D': 'test/package/deb.test.ts runs it, in a Debian of its own',
    'npm run release': 'test/package/release.test.ts runs the script as a rehearsal',
  },
  replica: {
    ' daemon ──every second──▶': 'a drawing',
    '# pipectl.toml': 'settings of a bucket: test/crash/replica.test.ts runs with such',
    'pipectl restore --from': 'needs a bucket: test/crash/replica.test.ts runs it',
    'pipectl replica orphans': 'needs a takeover: test/world/replica-orphans.test.ts runs it',
    'pipectl replica rejoin': 'needs a takeover: test/world/replica-orphans.test.ts runs it',
    'pipectl replica verify': 'needs a bucket: test/world/replica-verify.test.ts runs it',
    'pipectl serve --standby': 'needs a bucket: test/world/standby.test.ts runs it',
  },
  'sdk-python': {
    'from pipectl import Client\n\nwith Client("https': 'test/sdk/python-package.test.ts runs it',
    'npm run --silent package:python': 'test/sdk/python-package.test.ts makes and installs the package',
    'import asyncio': 'test/sdk/python-package.test.ts runs it',
    'from pipectl import Client\n\nwith Client(spool': 'test/sdk/python-package.test.ts runs it',
  },
  compatibility: { 'npm run test:full -- --only compat': 'runs the tests of test/compat' },
  'stuck-lanes': {
    'pipectl http://': 'the screen of top: test/world/tui runs it',
    'lane              sensors': 'the screen of top',
    'pipectl messages orders/warehouse': 'test/unit/cli/messages.test.ts runs messages with each filter',
    'pipectl tail orders': 'runs until it is interrupted: test/unit/cli/tail.test.ts runs tail',
  },
  pull: { ' pipe ──▶ lane': 'a drawing' },
  'sdk-js': { 'import { createClient } from': 'test/sdk/js-package.test.ts runs it' },
  tls: {
    'listen = "0.0.0.0:443"': 'settings',
    'listen = "127.0.0.1:8080"': 'settings',
    '[Service]': 'test/package/deb.test.ts has systemd-analyze verify it with the unit',
    'trusted_proxies =': 'settings',
  },
  tuning: { 'npm install --prefix ~/node-24.18': 'compiles a native package for another Node.js' },
}

const docs = new URL('../../docs/', import.meta.url)
const pages = readdirSync(docs)
  .filter((name) => name.endsWith('.md'))
  .map((name) => name.replace(/\.md$/, ''))

const guides = new URL('guides/', import.meta.url)
const walks = readdirSync(guides).map((name) => readFileSync(new URL(name, guides), 'utf8'))
const isWalked = (page: string) => walks.some((test) => test.includes(`await walk('${page}'`))
const blocksOfPage = (page: string) => blocksOf(readFileSync(new URL(`${page}.md`, docs), 'utf8'))

/** Those that the test of the page neither runs, writes nor compares. */
function leftOut({ language, options }: Block, isWalkedPage: boolean): boolean {
  if (!isWalkedPage) return true
  if ('not-run' in options) return !options['not-run']
  return !(['sh', 'output'].includes(language) || 'file' in options)
}

t.test('every block of every guide is walked, or has a reason why not', async (t) => {
  t.ok(pages.length > 20)
  const unexplained = pages.flatMap((page) =>
    blocksOfPage(page)
      .filter((block) => leftOut(block, isWalked(page)))
      .filter(({ text }) => !Object.keys(notWalked[page] ?? {}).some((begin) => text.startsWith(begin)))
      .map(({ line }) => `docs/${page}.md:${line}`),
  )
  t.same(unexplained, [])
})

t.test('every reason is of a block that is there and is left out', async (t) => {
  const idle = Object.entries(notWalked).flatMap(([page, reasons]) => {
    const blocks = pages.includes(page)
      ? blocksOfPage(page).filter((block) => leftOut(block, isWalked(page)))
      : []
    return Object.keys(reasons)
      .filter((begin) => !blocks.some(({ text }) => text.startsWith(begin)))
      .map((begin) => `${page}: ${begin}`)
  })
  t.same(idle, [])
})

t.test('negative control: a block that nobody runs is noticed', async (t) => {
  const block = (info: string) => blocksOf(`\`\`\`${info}\nls\n\`\`\`\n`)[0]!
  t.ok(leftOut(block('sh'), false))
  t.notOk(leftOut(block('sh'), true))
  t.ok(leftOut(block('json'), true))
  t.notOk(leftOut(block('js file=a.mjs'), true))
  t.ok(leftOut(block('sh not-run'), true))
  t.notOk(leftOut(block('sh not-run="a reason"'), true))
})

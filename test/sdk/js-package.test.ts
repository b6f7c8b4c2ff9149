/** The package of the JavaScript client as the registry would get it: packed, installed into an empty folder, and used. */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { makeSdkPipe, readSdk, sdkFolder } from '../support/sdk.ts'

const run = promisify(execFile)
const root = new URL('../../', import.meta.url).pathname
const home = mkdtempSync(path.join(os.tmpdir(), 'pipectl-sdk-'))
t.teardown(() => rmSync(home, { recursive: true, force: true }))
const env = { ...process.env, npm_config_cache: path.join(home, 'cache'), npm_config_offline: 'true' }
const app = path.join(home, 'app')
mkdirSync(app)
await run('npm', ['pack', '--pack-destination', home], { cwd: sdkFolder, env })
const tarball = readdirSync(home).find((name) => name.endsWith('.tgz')) ?? ''
writeFileSync(path.join(app, 'package.json'), '{ "type": "module", "private": true }')
await run('npm', ['install', path.join(home, tarball)], { cwd: app, env })
const installed = path.join(app, 'node_modules', 'pipectl-client')

t.test('it contains what was built, its types, README and license, and needs no other package', async (t) => {
  t.same(readdirSync(installed, { recursive: true, encoding: 'utf8' }).sort(), [
    ...['LICENSE', 'README.md', 'dist', 'dist/browser.d.ts', 'dist/browser.js', 'dist/node.d.ts'],
    ...['dist/node.js', 'dist/types.d.ts', 'package.json'],
  ])
  t.same(
    readdirSync(path.join(app, 'node_modules')).filter((name) => !name.startsWith('.')),
    ['pipectl-client'],
  )
  const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  const own = JSON.parse(readFileSync(path.join(installed, 'package.json'), 'utf8'))
  t.equal(own.version, version, 'it has the version of the daemon')
  t.match(readFileSync(path.join(installed, 'LICENSE'), 'utf8'), /Apache License/)
})

t.test('what a page loads is below 4 KB', async (t) => {
  const bytes = readSdk('dist/browser.js')
  const sizes = { gzip: gzipSync(bytes, { level: 9 }).length, brotli: brotliCompressSync(bytes).length }
  t.ok(sizes.gzip < 4_000 && sizes.brotli < 4_000, JSON.stringify(sizes))
  t.notMatch(bytes.toString(), /node:/)
})

/** Code blocks of this language in a document. */
function blocks(document: string, language: string): string[] {
  const text = readFileSync(document, 'utf8')
  return [...text.matchAll(/^```(\w+)[^\n]*\n([\s\S]*?)^```/gm)].flatMap(([, name, code = '']) =>
    name === language ? [code] : [],
  )
}

t.test('the programs of its README send records', async (t) => {
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const pipe = await makeSdkPipe(daemon)
  const [program = ''] = blocks(path.join(installed, 'README.md'), 'js')
  t.same(blocks(path.join(root, 'docs', 'sdk-js.md'), 'js'), [program], 'the guide has the same program')
  t.match(program, /from 'pipectl-client'/)
  const own = program
    .replace('https://pipes.example.com', daemon.dataUrl)
    .replace('PIPE_ID', pipe.pipeId)
    .replace('/var/lib/shop/queue', path.join(home, 'queue'))
  writeFileSync(path.join(app, 'send.js'), own)
  await run(process.execPath, ['send.js'], { cwd: app, env: { ...env, PIPECTL_API_KEY: pipe.key } })
  t.match(await pipe.arrived(), [{ event: 'order_paid' }])
})

const conditions = {
  node: { module: 'NodeNext', moduleResolution: 'NodeNext', lib: ['ES2022'] },
  browser: {
    ...{ module: 'ESNext', moduleResolution: 'Bundler', lib: ['ES2022', 'DOM'] },
    customConditions: ['browser'],
  },
}

for (const [name, options] of Object.entries(conditions)) {
  t.test(`its types are complete and strict: ${name}`, async (t) => {
    const folder = path.join(app, name)
    mkdirSync(folder)
    const compilerOptions = {
      ...{ ...options, strict: true, skipLibCheck: false, noEmit: true, types: [] },
      ...{ exactOptionalPropertyTypes: true, target: 'ES2022' },
    }
    writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }))
    const check = (code: string) => {
      writeFileSync(path.join(folder, 'app.ts'), code)
      const tsc = path.join(root, 'node_modules', '.bin', 'tsc')
      return run(tsc, ['-p', folder]).then(
        () => '',
        ({ stdout }) => String(stdout),
      )
    }
    const good = `import { createClient, type Client, type DropReason, type Problem } from 'pipectl-client'
      interface Sale { event: 'sale'; price: number }
      let reason: DropReason | undefined
      let last: Problem | undefined
      export const client: Client<Sale> = createClient<Sale>({
        url: 'https://pipes.example.com', pipe: 'x', key: 'y',
        batch: { maxRecords: 10 }, queue: { maxBytes: 1_000 }, timeoutMs: 10,
        onDrop: (records, why) => { reason = why; records satisfies unknown[] },
        onError: (problem) => { last = problem },
      })
      const kept: boolean = client.send({ event: 'sale', price: 1 })
      const isStored: boolean = await client.flush()
      const left: number = await client.close(1_000)
      export default [kept, isStored, left, client.stats().dropped, reason, last?.status]
    `
    t.equal(await check(good), '')
    const bad = `${good.replace('price: 1 })', "price: '1' })").replace("pipe: 'x'", 'pipes: 1')}`
    const problems = await check(bad)
    t.match(problems, /Type 'string' is not assignable to type 'number'/, 'negative control')
    t.match(problems, /'pipes' does not exist in type 'ClientOptions'/)
  })
}
